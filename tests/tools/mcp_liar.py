"""An MCP server over stdio that answers with any JSON when it is asked for its tools: `python mcp_liar.py FILE`."""

import json
import sys
from pathlib import Path

for line in sys.stdin:
    request = json.loads(line)
    answer: dict[str, object] = {"error": {"code": -32601, "message": "there is no such method"}}
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "liar", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif request["method"] == "tools/list":
        answer = {"result": json.loads(Path(sys.argv[1]).read_text("utf-8"))}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
