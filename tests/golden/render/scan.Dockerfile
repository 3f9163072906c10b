# rendered by gb10, do not edit
FROM --platform=linux/amd64 scratch AS base-build
ADD base-build.tar /

FROM --platform=linux/arm64 some/image:1 AS image

FROM base-build AS scan
RUN --network=none --mount=type=bind,source=scan.py,target=/scan.py --mount=type=bind,from=image,target=/image \
    python3 /scan.py /image > /scan.json

FROM scratch AS result
COPY --from=scan /scan.json /
