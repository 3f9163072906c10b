#!/usr/bin/env bash
set -euo pipefail
install -m 644 qwen3.5.jinja "$WORKSPACE_DIR/qwen3.5.jinja"
ln -sfn qwen3.5.jinja "$WORKSPACE_DIR/unsloth.jinja" # its name in recipes of the community
echo "use it by: --chat-template $WORKSPACE_DIR/qwen3.5.jinja"
