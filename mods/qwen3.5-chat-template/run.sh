#!/usr/bin/env bash
set -euo pipefail
install -m 644 qwen3.5.jinja "$WORKSPACE_DIR/qwen3.5.jinja"
echo "use it by: --chat-template $WORKSPACE_DIR/qwen3.5.jinja"
