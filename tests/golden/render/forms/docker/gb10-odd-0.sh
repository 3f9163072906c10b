#!/bin/sh
# odd: rank 0 of 1, on me@one
# Made by gb10: what `run` starts there. `status`, `logs` and `stop` know the container.
# The token of a gated model: HF_TOKEN_FILE=$HOME/.cache/huggingface/token sh gb10-odd-0.sh
set -eu
launch=$(cat <<'GB10'
least=$1 # 100%
echo "$((least / 1024))" \
  $$
GB10
)
exec docker run --detach \
  --name gb10-odd-0 \
  --pull missing \
  --gpus all \
  --ipc host \
  --network host \
  --memory 1073741824 \
  --memory-swap 1073741824 \
  --oom-score-adj 500 \
  --restart unless-stopped \
  --volume gb10-cache:/var/cache/gb10 \
  --env HF_HOME=/var/cache/gb10/huggingface \
  --env 'ODD=it'"'"'s "$HOME" $$ $(id) ${X} %h 100% `true` \n {{ x }} # é;' \
  --env 'LINES=a
  b 
' \
  --label io.github.gb10.service=odd \
  --label io.github.gb10.service.rank=0 \
  --label 'io.github.gb10.service.hosts=["me@one"]' \
  --label io.github.gb10.service.model=org/model \
  --label io.github.gb10.service.runtime=vllm-distributed \
  --label io.github.gb10.service.endpoint=http://one:9000 \
  --label io.github.gb10.service.digest=d536bffe6269d4a1ef3b0a516c3137745e9c018cce85dfdc6364117c4fe48162 \
  --label io.github.gb10.service.memory=1073741824 \
  --label io.github.gb10.service.share=0.0 \
  --entrypoint bash \
  --volume "${HF_TOKEN_FILE:-/dev/null}:/gb10/secrets/HF_TOKEN:ro" \
  registry.example/gb10/vllm:1 -c "$launch" /gb10/run/launch.sh 2097152 'vllm serve org/model --port 9000 \
  -tp 1 --text '"'"'it'"'"'"'"'"'"'"'"'s "$HOME" $$ $(id) ${X} %h 100% `true` \n { x } # é;'"'"' --served-model-name org/model'
