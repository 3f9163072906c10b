# gemm 12.1f, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM base-build AS tools
RUN --network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1767312000

FROM tools AS target
RUN --network=none --mount=type=bind,from=target-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /target --epoch 1767312000 --platform aarch64-manylinux_2_39 --no-compile

FROM tools AS compile
ARG SITE=usr/local/lib/python3.13/dist-packages
RUN --network=none --mount=type=bind,from=target,source=/target,target=/target \
    --mount=type=bind,source=inside,target=/inside --mount=type=bind,source=benches/gemm,target=/program-units \
    --mount=type=bind,source=units/moe,target=/include/1 \
    --mount=type=bind,from=source,target=/archives/source \
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
python3 -P -m gb10.inside.compile.program --name gemm --units /program-units --include /include/1 --cutlass /source/3rdparty/cutlass \
    --arch 12.1f -gencode=arch=compute_121f,code=sm_121f --cuda-home /cuda --cxx aarch64-linux-gnu-g++ --host-cxx g++ \
    --work /build --out /program --jobs 2
cp /build/measured.json /program/
ccache --show-stats
COMPILE

FROM scratch AS program
COPY --from=compile /program/ /
