// SPDX-License-Identifier: Apache-2.0
// The tiles that are compiled, and which of them a problem gets. Plain C++: no CUDA is needed to read or test it.

#pragma once

#include <cstdint>

// X(name, family, M, N, K, swapped): M x N of the result per block, K elements per stage.
//
// Swapped tiles are for up to 64 rows in all: b's rows are M, tokens are N. The others take over above. All fit into
// 101,376 bytes with at least two stages (sizes.cu prints them). N is 32 or more: one load of b's fragments takes 32.
#define GB10_MOE_TILES(X)                                      \
  X(swapped_64x32x128, PingpongTile, 64, 32, 128, true)        \
  X(swapped_128x32x128, CooperativeTile, 128, 32, 128, true)   \
  X(swapped_128x64x128, CooperativeTile, 128, 64, 128, true)   \
  X(pingpong_64x64x128, PingpongTile, 64, 64, 128, false)      \
  X(pingpong_64x128x128, PingpongTile, 64, 128, 128, false)    \
  X(coop_128x64x128, CooperativeTile, 128, 64, 128, false)     \
  X(coop_128x128x128, CooperativeTile, 128, 128, 128, false)   \
  X(coop_128x128x64, CooperativeTile, 128, 128, 64, false)

namespace gb10 {

enum class TileName {
#define GB10_NAME(name, ...) name,
  GB10_MOE_TILES(GB10_NAME)
#undef GB10_NAME
};

constexpr int64_t kSwapRows = 64;  // vLLM's moe_data.cu writes problem sizes transposed up to here

// By how many rows an expert has on average: the narrowest tile that takes them at once, so that few multiplies are
// spent on rows that are not there and b is read once; smaller ones where large ones would leave multiprocessors idle.
// Not measured on SM12x: the order of tiles is by waste, not by time.
constexpr TileName choose_tile(int64_t rows, int64_t n, int64_t k, int experts, int sm_count) {
  int64_t const active = rows < experts ? (rows > 0 ? rows : 1) : experts;
  int64_t const each = (rows + active - 1) / active;
  auto tiles = [=](int64_t tall, int64_t wide) { return (each + tall - 1) / tall * active * ((n + wide - 1) / wide); };
  if (rows <= kSwapRows) {
    if (each > 32) return TileName::swapped_128x64x128;
    return tiles(32, 128) < sm_count ? TileName::swapped_64x32x128 : TileName::swapped_128x32x128;
  }
  if (each <= 64) return tiles(64, 128) < sm_count ? TileName::pingpong_64x64x128 : TileName::pingpong_64x128x128;
  if (tiles(128, 128) < sm_count) return TileName::coop_128x64x128;
  return k % 128 == 64 ? TileName::coop_128x128x64 : TileName::coop_128x128x128;
}

static_assert(choose_tile(1, 1536, 2048, 128, 48) == TileName::swapped_64x32x128, "few rows: swapped, small");
static_assert(choose_tile(64, 1536, 2048, 8, 48) == TileName::swapped_128x32x128, "the last size that is swapped");
static_assert(choose_tile(65, 1536, 2048, 8, 48) == TileName::pingpong_64x128x128, "the first that is not");

}  // namespace gb10
