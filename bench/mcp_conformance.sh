#!/usr/bin/env bash
# MCP's own conformance suite against `foveate serve`, in each protocol revision.
#
#   bench/mcp_conformance.sh [CACHE]
#
# The suite and the Node it needs are installed by name into CACHE (default ~/.cache/foveate-clients). The suite is made
# for servers that offer every feature and its own test tools; mcp_conformance.py tells checks of what Foveate does not
# offer from checks that failed.
set -euo pipefail
cache=${1:-${FOVEATE_CLIENTS:-$HOME/.cache/foveate-clients}}/mcp-conformance
suite=@modelcontextprotocol/conformance
version=0.2.0-alpha.12 # the first line of versions with scenarios for 2026-07-28; 0.1.16 has none
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$cache"
[ -d "$cache/node_modules/$suite" ] || npm install --silent --no-audit --no-fund --prefix "$cache" node@22 "$suite@$version"

work=$(mktemp -d)
"$python" -m foveate serve --port 0 --db "$work/chat.db" --json >"$work/ready.json" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 100); do
  [ -s "$work/ready.json" ] && break
  sleep 0.1
done
url=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["url"])' "$work/ready.json")

for revision in 2025-06-18 2025-11-25 2026-07-28; do
  (cd "$work" && "$cache/node_modules/node/bin/node" "$cache/node_modules/$suite/dist/index.js" server \
    --url "$url/mcp" --suite all --spec-version $revision --output-dir "$work/$revision" >"$work/$revision.txt" 2>&1) || true
done
"$python" "$here/mcp_conformance.py" "$work"
