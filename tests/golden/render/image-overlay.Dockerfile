# gb10/vllm:0.33.0-cu130-sm121f-<key>, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM base-build AS tools
RUN --network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1795305600

FROM tools AS layer-cudnn
RUN --network=none --mount=type=bind,from=layer-cudnn-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-cuda
RUN --network=none --mount=type=bind,from=layer-cuda-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-nvcc
RUN --network=none --mount=type=bind,from=layer-nvcc-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-torch
RUN --network=none --mount=type=bind,from=layer-torch-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-dsl
RUN --network=none --mount=type=bind,from=layer-dsl-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-deps
RUN --network=none --mount=type=bind,from=layer-deps-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-flashinfer
RUN --network=none --mount=type=bind,from=layer-flashinfer-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-vllm
RUN --network=none --mount=type=bind,from=layer-vllm-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-flashinfer-jit-cache
RUN --network=none --mount=type=bind,from=layer-flashinfer-jit-cache-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM tools AS layer-gb10-kernels
RUN --network=none --mount=type=bind,from=layer-gb10-kernels-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1795305600 --platform aarch64-manylinux_2_39

FROM --platform=linux/amd64 scratch AS base
ADD base-image.tar /out/

FROM base-build AS settings
RUN --network=none --mount=type=bind,source=settings.py,target=/settings.py --mount=type=bind,from=base,source=/out,target=/base \
    PYTHONHASHSEED=0 python3 /settings.py --base /base --out /out --epoch 1795305600 --cc aarch64-linux-gnu-gcc --user 10001 --workdir /workspace/vllm

FROM base-build AS record
RUN --network=none --mount=type=bind,source=plan.json,target=/plan.json \
    install -D -m 644 /plan.json /out/usr/share/gb10/plan.json && find /out -exec touch -h -d @1795305600 {} +

FROM --platform=linux/arm64 scratch AS upstream
ADD --link base-image.tar /
COPY --link --from=layer-cudnn /out/ /
COPY --link --from=layer-cuda /out/ /
COPY --link --from=layer-nvcc /out/ /
COPY --link --from=layer-torch /out/ /
COPY --link --from=layer-dsl /out/ /
COPY --link --from=layer-deps /out/ /
COPY --link --from=layer-flashinfer /out/ /
COPY --link --from=layer-vllm /out/ /

FROM upstream AS image
COPY --link --from=layer-flashinfer-jit-cache /out/ /
COPY --link --from=layer-gb10-kernels /out/ /
COPY --link --from=settings /out/ /
COPY --link --from=overlay / /
COPY --link --from=record /out/ /
ENV CUDA_CACHE_MAXSIZE="4294967296" \
    CUDA_CACHE_PATH="/var/cache/gb10/cuda" \
    CUDA_HOME="/usr/local/cuda" \
    FLASHINFER_CUDA_ARCH_LIST="12.1f" \
    FLASHINFER_WORKSPACE_BASE="/var/cache/gb10" \
    HF_HOME="/var/cache/gb10/huggingface" \
    HOME="/var/cache/gb10" \
    PATH="/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    TORCHINDUCTOR_CACHE_DIR="/var/cache/gb10/inductor" \
    TORCH_CUDA_ARCH_LIST="12.1a" \
    TRITON_CACHE_DIR="/var/cache/gb10/triton" \
    USER="gb10" \
    XDG_CACHE_HOME="/var/cache/gb10"
LABEL io.github.gb10.arch="12.1f" \
      io.github.gb10.cuda="13.0" \
      io.github.gb10.lock.digest="<key>" \
      io.github.gb10.overlay="0000000000000000000000000000000000000000000000000000000000000000" \
      io.github.gb10.plan.key="<key>" \
      io.github.gb10.wheel.flashinfer-jit-cache="<key>" \
      io.github.gb10.wheel.gb10-kernels="<key>" \
      org.opencontainers.image.created="2026-11-22T00:00:00Z" \
      org.opencontainers.image.title="vllm 0.33.0 for 12.1f" \
      org.opencontainers.image.version="0.33.0"
WORKDIR /workspace/vllm
USER 10001
CMD ["vllm", "serve", "--help"]

FROM base-build AS scan-base
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=base,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-cudnn
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-cudnn,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-cuda
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-cuda,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-nvcc
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-nvcc,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-torch
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-torch,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-dsl
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-dsl,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-deps
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-deps,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-flashinfer
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-flashinfer,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-vllm
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-vllm,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-flashinfer-jit-cache
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-flashinfer-jit-cache,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-layer-gb10-kernels
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-gb10-kernels,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-settings
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=settings,source=/out,target=/out \
    python3 /scan.py /out > /scan.json

FROM base-build AS scan-overlay
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=overlay,target=/out \
    python3 /scan.py /out > /scan.json

FROM scratch AS proof
COPY --from=scan-base /scan.json /base.json
COPY --from=scan-layer-cudnn /scan.json /layer-cudnn.json
COPY --from=scan-layer-cuda /scan.json /layer-cuda.json
COPY --from=scan-layer-nvcc /scan.json /layer-nvcc.json
COPY --from=scan-layer-torch /scan.json /layer-torch.json
COPY --from=scan-layer-dsl /scan.json /layer-dsl.json
COPY --from=scan-layer-deps /scan.json /layer-deps.json
COPY --from=scan-layer-flashinfer /scan.json /layer-flashinfer.json
COPY --from=scan-layer-vllm /scan.json /layer-vllm.json
COPY --from=scan-layer-flashinfer-jit-cache /scan.json /layer-flashinfer-jit-cache.json
COPY --from=scan-layer-gb10-kernels /scan.json /layer-gb10-kernels.json
COPY --from=scan-settings /scan.json /settings.json
COPY --from=scan-overlay /scan.json /overlay.json
