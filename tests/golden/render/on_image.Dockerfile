# gb10/vllm:0.34.0.dev12-gabc-cu130-sm121f-<key>, key <key>: rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM --platform=linux/arm64 registry.example/vllm/vllm-openai@sha256:<key> AS base

FROM base-build AS added
RUN --network=none --mount=type=bind,from=added-files,target=/files --mount=type=bind,source=placed.py,target=/placed.py \
    --mount=type=bind,from=base,target=/below --mount=type=bind,source=scan.py,target=/scan.py \
    PYTHONHASHSEED=0 python3 /placed.py --below /below --files /files --out /out --epoch 1795305600 && \
    python3 /scan.py /out --as change > /scan.json

FROM base-build AS patched
RUN --network=none --mount=type=bind,from=patched-files,target=/files --mount=type=bind,source=placed.py,target=/placed.py \
    --mount=type=bind,from=base,target=/below --mount=type=bind,source=scan.py,target=/scan.py \
    PYTHONHASHSEED=0 python3 /placed.py --below /below --files /files --out /out --epoch 1795305600 && \
    python3 /scan.py /out --as change > /scan.json

FROM base-build AS overlay
RUN --network=none --mount=type=bind,from=overlay-files,target=/files --mount=type=bind,source=placed.py,target=/placed.py \
    --mount=type=bind,from=base,target=/below --mount=type=bind,source=scan.py,target=/scan.py \
    PYTHONHASHSEED=0 python3 /placed.py --below /below --files /files --out /out --epoch 1795305600 && \
    python3 /scan.py /out --as change > /scan.json

FROM base AS assembled
COPY --link --from=added /out/ /
COPY --link --from=patched /out/ /
COPY --link --from=overlay /out/ /
ENV A="b"
USER root

FROM assembled AS mod-1
RUN --network=none --mount=type=bind,from=mod-1-files,target=/run/gb10/files \
    --mount=type=bind,from=assembled,target=/run/gb10/before --mount=type=bind,source=mod.py,target=/run/gb10/mod.py \
    PYTHONHASHSEED=0 /usr/bin/python3.12 -B /run/gb10/mod.py --name one --workdir /vllm-workspace --epoch 1795305600


FROM base-build AS scan-mod-1
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,source=changed.py,target=/changed.py \
    --mount=type=bind,from=assembled,target=/before --mount=type=bind,from=mod-1,target=/after \
    python3 /changed.py /before /after > /scan.json

FROM scratch AS proof
COPY --from=added /scan.json /added.json
COPY --from=patched /scan.json /patched.json
COPY --from=overlay /scan.json /overlay.json
COPY --from=scan-mod-1 /scan.json /mod-1.json

FROM base-build AS record
RUN --network=none --mount=type=bind,source=plan.json,target=/plan.json \
    --mount=type=bind,from=added,source=/scan.json,target=/scans/added.json \
    --mount=type=bind,from=patched,source=/scan.json,target=/scans/patched.json \
    --mount=type=bind,from=overlay,source=/scan.json,target=/scans/overlay.json \
    --mount=type=bind,from=scan-mod-1,source=/scan.json,target=/scans/mod-1.json \
    install -D -m 644 /plan.json /out/usr/share/gb10/plan.json && install -d /out/usr/share/gb10/scans && \
    install -m 644 -t /out/usr/share/gb10/scans /scans/*.json && \
    find /out -exec touch -h -d @1795305600 {} +

FROM mod-1 AS image
COPY --link --from=record /out/ /
LABEL io.github.gb10.arch="12.1f" \
      io.github.gb10.cuda="13.0" \
      io.github.gb10.lock.digest="<key>" \
      io.github.gb10.mod.1="one@222222222222" \
      io.github.gb10.overlay="3333333333333333333333333333333333333333333333333333333333333333" \
      io.github.gb10.patches.vllm="fix.diff@111111111111" \
      io.github.gb10.plan.key="<key>" \
      org.opencontainers.image.base.digest="sha256:<key>" \
      org.opencontainers.image.base.name="registry.example/vllm/vllm-openai" \
      org.opencontainers.image.created="2026-11-22T00:00:00Z" \
      org.opencontainers.image.title="vllm 0.34.0.dev12+gabc for 12.1f" \
      org.opencontainers.image.version="0.34.0.dev12+gabc"
USER 2000:0
