"""What Python programs do that sandboxes tend to break: pools of processes, semaphores, asyncio, terminals."""
import asyncio, concurrent.futures, fcntl, multiprocessing, os, pty, select, signal, struct, sys, termios, time


def square(number):
    return number * number


def pools():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(method, sum(pool.map(square, range(5))))


def shared():
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[0] = 7
    other = shared_memory.SharedMemory(block.name)
    print("shared", other.buf[0])
    other.close()
    block.close()
    block.unlink()
    semaphore = multiprocessing.Semaphore(1)
    print("semaphore", semaphore.acquire(timeout=5))


async def serve():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    for host in ("127.0.0.1", "::1"):
        server = await asyncio.start_server(answer, host, 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"hello\n")
        print("asyncio", (await reader.readline()).decode().strip())
        writer.close()
        server.close()
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    print("subprocess", (await child.communicate())[0].decode().strip())


def until(master, wanted):
    said = b""
    while wanted not in said:
        if not select.select([master], [], [], 20)[0]:
            raise SystemExit(f"the terminal says nothing more than {said!r}")
        said += os.read(master, 1000)
    return said


def terminal():
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "tty; trap 'stty size' WINCH; trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done"])
    print("tty", until(master, b"ready").split()[0].decode())
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    until(master, b"33 99")
    os.write(master, b"\x03")
    until(master, b"interrupted")
    os.kill(pid, signal.SIGKILL)
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-i"])
    os.write(master, b"echo st''arted; sleep 1000\n")
    until(master, b"started")
    time.sleep(0.2)
    os.write(master, b"\x1a")
    until(master, b"Stopped")
    os.write(master, b"kill -9 %1; fg; echo d''one\n")
    until(master, b"done")
    print("job control")
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    {"pools": pools, "shared": shared, "asyncio": lambda: asyncio.run(serve()), "terminal": terminal}[sys.argv[1]]()
