# small 12.1f, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM base-build AS tools
RUN --network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1767312000

FROM tools AS target
RUN --network=none --mount=type=bind,from=target-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /target --epoch 1767312000 --platform aarch64-manylinux_2_39 --no-compile

FROM scratch AS base
ADD base-image.tar /out/

FROM tools AS own-tools
RUN --network=none --mount=type=bind,from=own-tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1767312000

FROM own-tools AS compile
ARG REBUILD=""
ARG SITE=usr/local/lib/python3.13/dist-packages
RUN --network=none --mount=type=bind,from=target,source=/target,target=/target \
    --mount=type=bind,source=inside,target=/inside --mount=type=bind,from=base,source=/out/usr/include,target=/python \
    --mount=type=bind,from=source,target=/archives/source \
    --mount=type=bind,from=source-patched,target=/archives/source-patched \
    --mount=type=bind,from=cutlass,target=/archives/cutlass \
    --mount=type=bind,from=cutlass-patched,target=/archives/cutlass-patched \
    --mount=type=cache,id=gb10-compilers,target=/compilers \
    --mount=type=cache,id=gb10-ccache-aarch64,target=/ccache <<'COMPILE'
set -eux
export PYTHONPATH=/inside
mkdir /source
tar --extract --file /archives/source/*.tar* --directory /source --strip-components 1
cp --recursive /archives/source-patched/. /source/
mkdir /cutlass
tar --extract --file /archives/cutlass/*.tar* --directory /cutlass --strip-components 1
cp --recursive /archives/cutlass-patched/. /cutlass/
python3 -P -m gb10.inside.compile.cuda_home --tools /$SITE/nvidia/cu13 --target /target/$SITE/nvidia/cu13 --out /cuda --cc aarch64-linux-gnu-gcc
export GB10_CCACHE=ccache CCACHE_DIR=/ccache CCACHE_MAXSIZE=20G PYTHONUNBUFFERED=1
python3 -P -m gb10.inside.compile.compile_slots --open /slots --pool /compilers --peaks /inside/peaks.json --jobs 2 --ninja
export GB10_CCACHE=/slots/ccache PATH=/slots/bin:$PATH
[ -z "$REBUILD" ] || export CCACHE_RECACHE=1
python3 -P -m gb10.inside.compile.cmake_targets --source /source --targets _C_one,_C_two --wheel small \
    --cutlass /cutlass/3rdparty/cutlass \
    --accepted v1.0.0 \
    --torch /target/$SITE/torch --python /python --arch 12.1f --cuda-home /cuda --cc aarch64-linux-gnu-gcc --cxx aarch64-linux-gnu-g++ \
    --machine aarch64 --work /build --out /built --jobs 2
python3 -P -m gb10.inside.compile.pack_targets --built /built --project small --version 1.2.3 \
    --key <key> --machine aarch64 --epoch 315532800 --out /wheel
cp /built/manifest.json /built/reads.json /build/measured.json /wheel/
ccache --show-stats
COMPILE

FROM scratch AS wheel
COPY --from=compile /wheel/ /
