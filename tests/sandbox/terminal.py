"""Drives `trumanfs agent` at a terminal, below a shell with job control: terminal.py PROGRAM STORE."""
import fcntl, os, pty, select, struct, sys, termios, time

PROGRAM, STORE = sys.argv[1:3]
LIMIT = 40


class Person:
    """Somebody at a terminal, who types and reads."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(STORE)
            os.environ.update(PS1="outer> ", TERM="xterm-256color")
            os.execvp("bash", ["bash", "--norc", "-i"])
        self.shown = b""
        self.resize(33, 99)
        self.reads("outer> ")

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def types(self, text):
        os.write(self.fd, text.encode())

    def reads(self, text):
        end = time.monotonic() + LIMIT
        while text.encode() not in self.shown:
            left = max(0, end - time.monotonic())
            if not select.select([self.fd], [], [], left)[0]:
                sys.exit(f"{text!r} is not in {self.shown[-2000:]!r}")
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                got = b""
            if not got:
                sys.exit(f"the end, and {text!r} is not in {self.shown[-2000:]!r}")
            self.shown += got
        at = self.shown.index(text.encode()) + len(text.encode())
        before, self.shown = self.shown[:at], self.shown[at:]
        return before.decode(errors="replace")


person = Person()
# A shell in it: its terminal has a name, a size and colours, and ^C ends what is in its foreground.
person.types(f"{PROGRAM} agent -- bash --norc -i\n")
person.reads("bash-")
person.types("tty; stty size; tput colors; echo in$((1+1))\n")
person.reads("/dev/pts/0")
person.reads("33 99")
person.reads("in2")
person.resize(40, 120)
person.types("sleep 0.3; stty size\n")
person.reads("40 120")
person.types("echo go$((5+5)); sleep 1000\n")
person.reads("go10")
time.sleep(0.3)
person.types("\x03")
person.types("echo alive$((2+3)) >made; cat made\n")
person.reads("alive5")
person.types("exit 3\n")
person.reads("1 file differ")
person.types("echo code=$?\n")
person.reads("code=3")

# A program that is stopped by ^Z: the outer shell has its terminal back, and fg has the program go on.
person.types(f"{PROGRAM} agent -- python3 -c 'import time; print(chr(64)*5, flush=True); time.sleep(1000)'\n")
person.reads("@@@@@")
time.sleep(0.3)
person.types("\x1a")
person.reads("Stopped")
person.types("stty -a | grep -o ' icanon'; echo outer$((4+4))\n")
person.reads(" icanon")
person.reads("outer8")
person.types("fg\n")
time.sleep(0.5)
person.types("\x03")
person.reads("KeyboardInterrupt")
person.reads("nothing was changed")
person.types("stty -a | grep -o ' icanon'\n")
person.reads(" icanon")

# What is asked at the end.
person.types(f"{PROGRAM} agent --ask -- sh -c 'echo x >asked'\n")
person.reads("[d]iscard: ")
person.types("d\n")
person.reads("undone")
person.types(f"ls; {PROGRAM} agent --ask -- sh -c 'echo x >asked'\n")
person.reads("[d]iscard: ")
person.types("what\nk\n")
person.reads("outer> ")
person.types("ls asked | tr a-z A-Z; exit\n")
person.reads("ASKED")
os.waitpid(person.pid, 0)
print("all was as expected")
