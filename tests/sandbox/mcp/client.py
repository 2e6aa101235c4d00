"""The official SDK for Python as a client of `trumanfs serve mcp`.

    client.py ERA PROGRAM ROOT    ERA: sessions or stateless

Every result that the SDK takes is validated by it against the types of the negotiated revision, which are generated from the
published schema; `schema.py` does so for errors and for notifications as well.
"""
import asyncio
import subprocess
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ERA, PROGRAM, ROOT = sys.argv[1:]
TOOLS = "bash,read_text_file,write_file,edit_file,remove,history,undo,bash_output,run_git,run_pytest,run_sleep"


class Agent:
    def __init__(self, session):
        self.client = session
        self.session = None

    async def call(self, tool, **arguments):
        if self.session:
            arguments.setdefault("session", self.session)
        result = await self.client.call_tool(tool, arguments)
        self.session = self.session or result.structured_content["session"]
        return result

    async def does(self, tool, **arguments):
        result = await self.call(tool, **arguments)
        assert not result.is_error, (tool, result)
        return result.content[0].text

    async def fails(self, tool, **arguments):
        result = await self.call(tool, **arguments)
        assert result.is_error, (tool, result)
        return result.content[0].text


def processes(word):
    return subprocess.run(["pgrep", "-f", f"^sleep {word}$"], capture_output=True, text=True).stdout.split()


async def gone(word):
    until = time.time() + 10
    while processes(word):
        assert time.time() < until, "the sleep goes on"
        await asyncio.sleep(0.05)


async def work(client, version):
    assert version == ("2026-07-28" if ERA == "stateless" else "2025-11-25"), version
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"bash", "edit_file", "undo", "run_git", "run_pytest"} <= tools.keys(), tools.keys()
    assert tools["read_text_file"].annotations.read_only_hint is True
    agent = Agent(client)

    # Editing.
    await agent.does("write_file", path="sums.py", content="def add(a, b):\n    return a - b\n")
    await agent.does("write_file", path="test_sums.py", content="from sums import add\n\ndef test_add():\n    assert add(2, 2) == 4\n")
    # git and pytest, as the policy allows them.
    failed = await agent.call("run_pytest", args=["-q"])
    assert failed.structured_content["return_code"] == 1 and "1 failed" in failed.content[0].text, failed
    # (Of another size: Python tells two states of a file apart by size and second.)
    diff = await agent.does("edit_file", path="sums.py", old_string="a - b", new_string="a + b  # both")
    assert "-    return a - b\n+    return a + b  # both\n" in diff, diff
    passed = await agent.does("bash", command="pytest -q")
    assert "1 passed" in passed, passed
    said = await agent.does("bash", command="git status --short")
    assert "?? sums.py" in said, said
    assert "not a sub-command" in await agent.fails("run_git", args=["push"])

    # Cancelling a sleep.
    asleep = asyncio.create_task(agent.call("run_sleep", args=["86.25"]))
    while not processes("86.25"):
        await asyncio.sleep(0.02)
    asleep.cancel()
    try:
        await asleep
    except asyncio.CancelledError:
        pass
    await gone("86.25")

    # Progress of a call.
    told = []

    async def progress(done, total, message):
        told.append(done)

    arguments = {"command": "sleep 2.5; echo done", "session": agent.session}
    result = await client.call_tool("bash", arguments, progress_callback=progress)
    assert result.content[0].text == "done\n" and told == sorted(told) and told, (result, told)

    # Undoing a removal.
    said = await agent.does("remove", path="sums.py")
    assert ".trash/" in said, said
    assert "No such file" in await agent.fails("read_text_file", path="sums.py")
    assert "brought back /sums.py" in await agent.does("undo")
    assert "a + b" in await agent.does("read_text_file", path="sums.py")
    assert "edit_file sums.py" in await agent.does("history")

    # Fifty at once.
    answers = await asyncio.gather(*(agent.does("bash", command=f"echo {n}") for n in range(50)))
    assert answers == [f"{n}\n" for n in range(50)], answers

    # What an answer leaves out.
    await agent.does("write_file", path="big", content="x" * 300000)
    cut = await agent.call("bash", command="cat big")
    [text, link] = cut.content
    assert cut.structured_content["truncated_stdout"] is True and "bash_output" in text.text, text.text[-400:]
    assert len((await client.read_resource(link.uri)).contents[0].text) > 30000
    rest = await agent.does("bash_output", job=cut.structured_content["run"], offset=290000)
    assert rest.startswith("x" * 10000) and "of 300000: the end" in rest, rest[-200:]

    # Resources.
    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    diff = next(uri for uri in uris if agent.session in uri and uri.endswith("/diff"))
    text = (await client.read_resource(diff)).contents[0].text
    assert "+    return a + b" in text, text


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["serve", "mcp", "--root", ROOT, "--policy", f"{ROOT}.policy", "--tools", TOOLS])
    async with stdio_client(server) as (reading, writing):
        async with ClientSession(reading, writing) as client:
            opened = await (client.discover() if ERA == "stateless" else client.initialize())
            assert opened is not None
            await work(client, client.protocol_version)
    print("all of it")


asyncio.run(asyncio.wait_for(main(), 90))
