# mine/small:1.2.3-cu130-sm121f-<key>, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM base-build AS tools
RUN --network=none --mount=type=bind,from=tools-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out / --epoch 1767312000

FROM tools AS layer-torch
RUN --network=none --mount=type=bind,from=layer-torch-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1767312000 --platform aarch64-manylinux_2_39

FROM tools AS layer-rest
RUN --network=none --mount=type=bind,from=layer-rest-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1767312000 --platform aarch64-manylinux_2_39

FROM tools AS layer-jit-cache
RUN --network=none --mount=type=bind,from=layer-jit-cache-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1767312000 --platform aarch64-manylinux_2_39

FROM tools AS layer-kernels
RUN --network=none --mount=type=bind,from=layer-kernels-wheels,target=/wheels --mount=type=bind,source=install.py,target=/install.py \
    PYTHONHASHSEED=0 python3 /install.py --wheels /wheels --out /out --epoch 1767312000 --platform aarch64-manylinux_2_39


FROM --platform=linux/arm64 scratch AS base
ADD --link base-image.tar /

FROM base-build AS settings
RUN --network=none --mount=type=bind,source=settings.py,target=/settings.py --mount=type=bind,from=base,target=/base \
    PYTHONHASHSEED=0 python3 /settings.py --base /base --out /out --epoch 1767312000 --cc aarch64-linux-gnu-gcc --workdir /srv

FROM base-build AS overlay
RUN --network=none --mount=type=bind,from=overlay-files,target=/overlay --mount=type=bind,source=overlay.py,target=/overlay.py \
    PYTHONHASHSEED=0 python3 /overlay.py --overlay /overlay --out /out --epoch 1767312000

FROM base AS upstream
COPY --link --from=layer-torch /out/ /
COPY --link --from=layer-rest /out/ /

FROM tools AS graft-small
RUN --network=none --mount=type=bind,from=graft-small-files,target=/files --mount=type=bind,source=grafted.py,target=/grafted.py \
    --mount=type=bind,from=upstream,target=/below \
    PYTHONHASHSEED=0 python3 /grafted.py --below /below --wheel /files --out /out --epoch 1767312000

FROM upstream AS assembled
COPY --link --from=layer-jit-cache /out/ /
COPY --link --from=layer-kernels /out/ /
COPY --link --from=graft-small /out/ /
COPY --link --from=settings /out/ /
COPY --link --from=overlay /out/ /
ENV FLASHINFER_CUDA_ARCH_LIST="12.1f" \
    HOME="/var/cache/small" \
    PATH="/usr/bin" \
    TORCH_CUDA_ARCH_LIST="12.1a"

FROM assembled AS mod-1
RUN --network=none --mount=type=bind,from=mod-1-files,target=/run/gb10/files \
    --mount=type=bind,from=assembled,target=/run/gb10/before --mount=type=bind,source=mod.py,target=/run/gb10/mod.py \
    PYTHONHASHSEED=0 python3 -B /run/gb10/mod.py --name one --workdir /srv --epoch 1767312000

FROM mod-1 AS mod-2
RUN --network=default --mount=type=bind,from=mod-2-files,target=/run/gb10/files \
    --mount=type=bind,from=mod-1,target=/run/gb10/before --mount=type=bind,source=mod.py,target=/run/gb10/mod.py \
    --mount=type=secret,id=ca,target=/run/gb10/ca.pem --mount=type=secret,id=index,target=/run/gb10/index.json \
    PYTHONHASHSEED=0 python3 -B /run/gb10/mod.py --name two --workdir /srv --epoch 1767312000


FROM base-build AS scan-base
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=base,source=/,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-layer-torch
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-torch,source=/out,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-layer-rest
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-rest,source=/out,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-layer-jit-cache
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-jit-cache,source=/out,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-layer-kernels
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=layer-kernels,source=/out,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-graft-small
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=graft-small,source=/out,target=/out \
    python3 /scan.py /out --as change --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-settings
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=settings,source=/out,target=/out \
    python3 /scan.py /out --as layer --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-overlay
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=overlay,source=/out,target=/out \
    python3 /scan.py /out --as change --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-mod-1
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,source=changed.py,target=/changed.py \
    --mount=type=bind,from=assembled,target=/before --mount=type=bind,from=mod-1,target=/after \
    python3 /changed.py /before /after --symbols /symbols.json.gz > /scan.json

FROM base-build AS scan-mod-2
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,source=changed.py,target=/changed.py \
    --mount=type=bind,from=mod-1,target=/before --mount=type=bind,from=mod-2,target=/after \
    python3 /changed.py /before /after --symbols /symbols.json.gz > /scan.json

FROM base-build AS linked
RUN --network=none --mount=type=bind,source=linked.py,target=/linked.py \
    --mount=type=bind,from=scan-base,source=/symbols.json.gz,target=/symbols/001.json.gz \
    --mount=type=bind,from=scan-layer-torch,source=/symbols.json.gz,target=/symbols/002.json.gz \
    --mount=type=bind,from=scan-layer-rest,source=/symbols.json.gz,target=/symbols/003.json.gz \
    --mount=type=bind,from=scan-layer-jit-cache,source=/symbols.json.gz,target=/symbols/004.json.gz \
    --mount=type=bind,from=scan-layer-kernels,source=/symbols.json.gz,target=/symbols/005.json.gz \
    --mount=type=bind,from=scan-graft-small,source=/symbols.json.gz,target=/symbols/006.json.gz \
    --mount=type=bind,from=scan-settings,source=/symbols.json.gz,target=/symbols/007.json.gz \
    --mount=type=bind,from=scan-overlay,source=/symbols.json.gz,target=/symbols/008.json.gz \
    --mount=type=bind,from=scan-mod-1,source=/symbols.json.gz,target=/symbols/009.json.gz \
    --mount=type=bind,from=scan-mod-2,source=/symbols.json.gz,target=/symbols/010.json.gz \
    python3 /linked.py --search '' /symbols/*.json.gz > /linked.json

FROM scratch AS proof
COPY --from=scan-base /scan.json /base.json
COPY --from=scan-layer-torch /scan.json /layer-torch.json
COPY --from=scan-layer-rest /scan.json /layer-rest.json
COPY --from=scan-layer-jit-cache /scan.json /layer-jit-cache.json
COPY --from=scan-layer-kernels /scan.json /layer-kernels.json
COPY --from=scan-graft-small /scan.json /graft-small.json
COPY --from=scan-settings /scan.json /settings.json
COPY --from=scan-overlay /scan.json /overlay.json
COPY --from=scan-mod-1 /scan.json /mod-1.json
COPY --from=scan-mod-2 /scan.json /mod-2.json
COPY --from=linked /linked.json /linked.json

FROM base-build AS record
RUN --network=none --mount=type=bind,source=plan.json,target=/plan.json --mount=type=bind,from=proof,target=/scans \
    install -D -m 644 /plan.json /out/usr/share/gb10/plan.json && \
    install -D -m 644 -t /out/usr/share/gb10/scans /scans/*.json && find /out -exec touch -h -d @1767312000 {} +

FROM mod-2 AS image
COPY --link --from=record /out/ /
LABEL io.github.gb10.arch="12.1f" \
      io.github.gb10.cuda="13.0" \
      io.github.gb10.lock.digest="<key>" \
      io.github.gb10.mod.1="one@111111111111" \
      io.github.gb10.mod.2="two@222222222222" \
      io.github.gb10.overlay="0000000000000000000000000000000000000000000000000000000000000000" \
      io.github.gb10.plan.key="<key>" \
      io.github.gb10.wheel.jit-cache="<key>" \
      io.github.gb10.wheel.kernels="<key>" \
      io.github.gb10.wheel.small="<key>" \
      org.opencontainers.image.created="2026-01-02T00:00:00Z" \
      org.opencontainers.image.title="small 1.2.3 for 12.1f" \
      org.opencontainers.image.version="1.2.3"
WORKDIR /srv
USER 10001
CMD ["python3", "-m", "small"]
