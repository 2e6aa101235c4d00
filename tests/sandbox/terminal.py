"""Drives `trumanfs agent` at a terminal, below a shell with job control: terminal.py PROGRAM STORE."""
import fcntl, os, pty, select, shutil, struct, sys, termios, time

PROGRAM, STORE = sys.argv[1:3]
LIMIT = 40


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Person:
    """Somebody at a terminal, who types and reads."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            set_size(0, 33, 99)
            os.chdir(STORE)
            os.environ.update(PS1="outer> ", TERM="xterm-256color")
            os.execvp("bash", ["bash", "--norc", "-i"])
        self.shown = b""
        self.reads("outer> ")

    def resize(self, rows, columns):
        """Not while a bash is on its way to its prompt: readline reads the size there and sets what it read."""
        set_size(self.fd, rows, columns)

    def types(self, text):
        os.write(self.fd, text.encode())

    def waits_for_raw(self):
        """Until ^C is a key: before that the signal is for whoever has the terminal, and ends the launcher."""
        end = time.monotonic() + LIMIT
        while termios.tcgetattr(self.fd)[3] & termios.ISIG:
            if time.monotonic() > end:
                sys.exit(f"the terminal is not raw: {self.shown[-2000:]!r}")
            time.sleep(0.02)

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
person.reads("bash-")
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
person.reads("agent -- python3")
person.waits_for_raw()
person.types("\x03")
person.reads("KeyboardInterrupt")
person.reads("nothing was changed")
person.types("stty -a | grep -o ' icanon'\n")
person.reads(" icanon")

# What is asked at the end, where there can be no screen.
person.types(f"TERM=dumb {PROGRAM} agent --ask -- sh -c 'echo x >asked'\n")
person.reads("[d]iscard: ")
person.types("d\n")
person.reads("undone")
person.types(f"ls; TERM=dumb {PROGRAM} agent --ask -- sh -c 'echo x >asked'\n")
person.reads("[d]iscard: ")
person.types("what\nk\n")
person.reads("outer> ")
person.types("ls asked | tr a-z A-Z\n")
person.reads("ASKED")


def has(tool):
    if shutil.which(tool, path="/usr/bin:/bin"):
        return True
    print(f"SKIPPED {tool} at a terminal: it is not installed", file=sys.stderr)
    return False


def begins(command):
    person.types(f"clear; {PROGRAM} agent -- {command}\n")


def ends(said):
    person.reads(said)
    person.types("echo over$((6+6))\n")
    person.reads("over12")
    person.reads("outer> ")


# Programs that take the whole screen.
if has("less"):
    person.types("seq 1 500 >numbers\n")
    begins("less numbers")
    person.reads("39")
    person.types("G")
    person.reads("500")
    person.reads("(END)")
    # It has to wait for a key: between showing and that, it notes a change of the size and acts on it with the next key.
    time.sleep(0.3)
    person.resize(20, 60)
    person.reads("480")
    person.types("g")
    person.reads("19")
    person.types("/250\n")
    person.reads("268")
    person.types("q")
    ends("nothing was changed")
    person.resize(33, 99)
if has("vim"):
    begins("vim -u NONE -N written")
    person.reads("\x1b[?1049h")
    person.reads("written")
    person.types("ihello from vim\x1b:w\n")
    person.reads("1L, 15B")
    # It stops itself, as it does in a shell.
    person.types("\x1a")
    person.reads("Stopped")
    person.types("fg\n")
    person.reads("\x1b[?1049h")
    person.reads("hello from vim")
    person.types(":q\n")
    ends("1 file differ")
    person.types("cat written | tr a-z A-Z\n")
    person.reads("HELLO FROM VIM")
if has("nano"):
    begins("nano --ignorercfiles noted")
    person.reads("noted")
    person.types("hello from nano\x0f")
    person.reads("File Name to Write")
    person.types("\r")
    person.reads("Wrote 1 line")
    person.types("\x18")
    ends("1 file differ")
    person.types("cat noted | tr a-z A-Z\n")
    person.reads("HELLO FROM NANO")
if has("htop"):
    begins("htop")
    # In colours, and it sees itself and the first process alone.
    seen = person.reads("F10")
    if "\x1b[3" not in seen or "Tasks:" not in seen:
        sys.exit(f"this is no htop in colours: {seen!r}")
    person.types("q")
    ends("nothing was changed")

person.types("exit\n")
os.waitpid(person.pid, 0)
print("all was as expected")
