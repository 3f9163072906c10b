# rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM --platform=linux/arm64 some/image:1 AS image

FROM base-build AS scan
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=image,target=/image \
    python3 /scan.py /image --as image --symbols /symbols.json.gz > /scan.json

FROM base-build AS linked
RUN --network=none --mount=type=bind,source=linked.py,target=/linked.py --mount=type=bind,source=search.txt,target=/search.txt \
    --mount=type=bind,from=scan,source=/symbols.json.gz,target=/symbols.json.gz \
    python3 /linked.py --search "$(cat /search.txt)" /symbols.json.gz > /linked.json

FROM scratch AS result
COPY --from=scan /scan.json /
COPY --from=linked /linked.json /
