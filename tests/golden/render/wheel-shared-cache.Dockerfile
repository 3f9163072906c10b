# jit-cache 12.1f, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM base-build AS tools
RUN --network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1767312000

FROM tools AS target
RUN --network=none --mount=type=bind,from=target-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /target --epoch 1767312000 --platform aarch64-manylinux_2_39 --no-compile

FROM tools AS compile
ARG REBUILD=""
ARG SITE=usr/local/lib/python3.13/dist-packages
RUN --network=default --mount=type=bind,from=target,source=/target,target=/target \
    --mount=type=bind,source=inside,target=/inside --mount=type=bind,source=kernels.json,target=/kernels.json \
    --mount=type=bind,from=source,target=/archives/source \
    --mount=type=secret,id=compile-cache,required=true,target=/run/gb10/ccache.conf \
    --mount=type=cache,id=gb10-compilers,target=/compilers \
    --mount=type=cache,id=gb10-ccache-aarch64,target=/ccache <<'COMPILE'
set -eux
export PYTHONPATH=/inside
mkdir /source
tar --extract --file /archives/source/*.tar* --directory /source --strip-components 1
python3 -P -m gb10.inside.compile.cuda_home --tools /$SITE/nvidia/cu13 --target /target/$SITE/nvidia/cu13 --out /cuda --cc aarch64-linux-gnu-gcc
export GB10_CCACHE=ccache CCACHE_DIR=/ccache CCACHE_MAXSIZE=20G PYTHONUNBUFFERED=1
python3 -P -m gb10.inside.compile.compile_slots --open /slots --pool /compilers --peaks /inside/peaks.json --jobs 2 --ninja
export GB10_CCACHE=/slots/ccache PATH=/slots/bin:$PATH
CCACHE_CONFIGPATH=$(python3 -P -m gb10.inside.compile.compile_cache --config /run/gb10/ccache.conf)
export CCACHE_CONFIGPATH CCACHE_STATSLOG=/ccache.log
[ -z "$REBUILD" ] || export CCACHE_RECACHE=1
python3 -P -m gb10.inside.compile.aot --source /source --kernels /kernels.json --arch 12.1f --cuda-home /cuda --cxx aarch64-linux-gnu-g++ \
    --work /build --out /built --jobs 2
python3 -P -m gb10.inside.compile.pack_wheel --built /built --key <key> --machine aarch64 --epoch 315532800 --out /wheel
cp /built/manifest.json /build/measured.json /wheel/
[ ! -e /build/launch.jsonl ] || cat /build/launch.jsonl
ccache --show-stats
python3 -P -m gb10.inside.compile.compile_cache --count /ccache.log
COMPILE

FROM scratch AS wheel
COPY --from=compile /wheel/ /
