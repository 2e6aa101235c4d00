"""The official SDK for Python as a client of `trumanfs serve mcp --shell bash`.

    shell_client.py ERA PROGRAM ROOT    ERA: sessions or stateless
"""
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ERA, PROGRAM, ROOT = sys.argv[1:]


async def work(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "bash" in tools["bash"].description and "no network" in tools["bash"].description, tools["bash"].description
    session = None

    async def call(tool, **arguments):
        nonlocal session
        result = await client.call_tool(tool, arguments | ({"session": session} if session else {}))
        session = session or result.structured_content["session"]
        return result.content[0].text, result.structured_content

    text, data = await call("bash", command="for i in 3 1 2; do echo $i; done | sort > f; total() { paste -sd+ f | bc; }; cat f")
    assert text == "1\n2\n3\n" and data["changed"] is True, (text, data)
    text, data = await call("bash", command="python3 - <<'E'\nprint(sum(map(int, open('f'))))\nE\ntype total | head -n 1; nosuch")
    assert data["stdout"] == "6\ntotal is a function\n" and data["return_code"] == 127, data
    text, _ = await call("edit_file", path="f", old_string="2", new_string="two")
    assert "+two" in text, text
    text, data = await call("bash", command="sed -i /two/d f; wc -l < f; exit 4")
    assert data["stdout"].strip() == "2" and data["return_code"] == 4, data
    text, data = await call("bash", command="type total")
    assert "a new shell" in data["warnings"][0], data
    # The newest run that changed something is that of sed.
    await call("undo")
    text, _ = await call("bash", command="cat f")
    assert text == "1\ntwo\n3\n", text
    text, data = await call("bash", command="(sleep 0.3; echo later) & echo now")
    assert data["stdout"] == "now\n", data
    text, _ = await call("bash_output", job=data["job"], wait=5)
    for _ in range(50):
        if "later" in text:
            break
        text += (await call("bash_output", job=data["job"], wait=1))[0]
        await asyncio.sleep(0.1)
    assert "later" in text, text


async def main():
    words = ["serve", "mcp", "--root", ROOT, "--shell", "bash"]
    server = StdioServerParameters(command=PROGRAM, args=words)
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
        assert await (client.discover() if ERA == "stateless" else client.initialize()) is not None
        await work(client)
    print("all of it")


asyncio.run(asyncio.wait_for(main(), 90))
