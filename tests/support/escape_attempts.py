"""Attempts to leave the sandbox. This file is copied into a working folder and executed there by `exec`.

Each function tries one thing and returns true if it succeeded. It needs the standard library alone. `params.json` has
what there is to reach: a folder outside, a process, services, the store.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTEMPTS: dict[str, Callable[[dict[str, Any]], object]] = {}
CERTAIN: set[str] = set()
"""Attempts that succeed on any Linux when they are not confined."""
SECONDS = 5
ESCAPED = "ESCAPED"
_libc = ctypes.CDLL(None, use_errno=True)
_X86 = platform.machine() == "x86_64"


def attempt(function: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    ATTEMPTS[function.__name__] = function
    return function


def certain(function: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    CERTAIN.add(function.__name__)
    return attempt(function)


def _call(x86: int, arm: int, *arguments: object) -> bool:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return bool(_libc.syscall(ctypes.c_long(x86 if _X86 else arm), *given) >= 0)


# Files


@certain
def read_a_file_outside(p: dict[str, Any]) -> object:
    return Path(p["secret"]).read_text()


@certain
def read_by_dot_dot(p: dict[str, Any]) -> object:
    return Path("../outside/secret").read_text()


@certain
def read_through_a_symlink(p: dict[str, Any]) -> object:
    Path("link").symlink_to(p["secret"])
    return Path("link").read_text()


@certain
def read_through_a_symlinked_folder(p: dict[str, Any]) -> object:
    Path("folder").symlink_to(p["outside"])
    return Path("folder/secret").read_text()


@certain
def read_through_a_hard_link(p: dict[str, Any]) -> object:
    Path("hard").hardlink_to(p["secret"])
    return Path("hard").read_text()


@certain
def read_from_an_opened_folder(p: dict[str, Any]) -> object:
    folder = os.open(p["outside"], os.O_PATH)
    return os.read(os.open("secret", os.O_RDONLY, dir_fd=folder), 10)


@certain
def reopen_a_path_descriptor(p: dict[str, Any]) -> object:
    found = os.open(p["secret"], os.O_PATH)
    return os.read(os.open(f"/proc/self/fd/{found}", os.O_RDONLY), 10)


@certain
def list_a_folder_outside(p: dict[str, Any]) -> object:
    return list(Path(p["outside"]).iterdir())


@certain
def list_the_home_folder(p: dict[str, Any]) -> object:
    list(Path(p["home"]).iterdir())
    return True


@certain
def list_the_root_folder(p: dict[str, Any]) -> object:
    return list(Path("/").iterdir())


@attempt
def read_password_hashes(p: dict[str, Any]) -> object:
    return Path("/etc/shadow").read_text()


@certain
def create_a_file_outside(p: dict[str, Any]) -> object:
    return Path(p["outside"], "new").write_text("x")


@certain
def overwrite_a_file_outside(p: dict[str, Any]) -> object:
    return Path(p["outside"], "target").write_text("x")


@certain
def truncate_a_file_outside(p: dict[str, Any]) -> object:
    os.truncate(Path(p["outside"], "target"), 0)
    return True


@certain
def move_a_file_in(p: dict[str, Any]) -> object:
    Path(p["outside"], "moved").rename("moved")
    return True


@certain
def delete_a_file_outside(p: dict[str, Any]) -> object:
    Path(p["outside"], "deleted").unlink()
    return True


@certain
def change_the_mode_outside(p: dict[str, Any]) -> object:
    Path(p["outside"], "target").chmod(0o777)
    return True


@certain
def change_the_mode_through_a_symlink(p: dict[str, Any]) -> object:
    Path("mode").symlink_to(Path(p["outside"], "target"))
    Path("mode").chmod(0o777)
    return True


@certain
def change_the_mode_by_a_path_descriptor(p: dict[str, Any]) -> object:
    found = os.open(Path(p["outside"], "target"), os.O_PATH)
    Path(f"/proc/self/fd/{found}").chmod(0o777)
    return True


@certain
def change_the_mode_of_a_file_that_may_be_read(p: dict[str, Any]) -> object:
    os.fchmod(os.open(p["readable"], os.O_RDONLY), 0o600)
    return True


@certain
def change_times_outside(p: dict[str, Any]) -> object:
    os.utime(Path(p["outside"], "target"))
    return True


@certain
def change_the_owner_outside(p: dict[str, Any]) -> object:
    os.chown(Path(p["outside"], "target"), os.getuid(), os.getgid())
    return True


@certain
def watch_a_folder_outside(p: dict[str, Any]) -> object:
    watcher = _libc.inotify_init()
    return _libc.inotify_add_watch(watcher, os.fsencode(p["outside"]), 0x100) >= 0


@attempt
def open_a_file_by_its_handle(p: dict[str, Any]) -> object:
    handle = ctypes.create_string_buffer(b"\x80\0\0\0", 136)
    return _call(303, 264, -100, os.fsencode(p["secret"]), handle, ctypes.byref(ctypes.c_int()), 0)


@certain
def read_the_store_inside_the_folder(p: dict[str, Any]) -> object:
    return "SECRET" in Path(p["store"]).read_text()


@certain
def read_the_journal_of_the_store(p: dict[str, Any]) -> object:
    return "SECRET" in Path(p["store"] + "-wal").read_text()


@certain
def damage_the_store(p: dict[str, Any]) -> object:
    Path(p["store"]).rename("elsewhere")
    return True


@attempt
def change_foveate_itself(p: dict[str, Any]) -> object:
    with Path(p["own"]).open("a"):
        return True


@attempt
def change_the_system(p: dict[str, Any]) -> object:
    return Path("/usr/bin/foveate-was-here").write_text("x")


@attempt
def make_a_device(p: dict[str, Any]) -> object:
    os.mknod("disk", 0o60600, os.makedev(8, 0))
    return True


@attempt
def read_memory_of_the_machine(p: dict[str, Any]) -> object:
    return Path("/dev/mem").open("rb")


@certain
def write_shared_memory_files(p: dict[str, Any]) -> object:
    return Path("/dev/shm", p["unique"]).write_text("x")


@certain
def write_the_temporary_folder_of_all(p: dict[str, Any]) -> object:
    return Path("/tmp", p["unique"]).write_text("x")


@attempt
def set_a_parameter_of_the_kernel(p: dict[str, Any]) -> object:
    return Path("/proc/sys/kernel/core_pattern").open("w")


@certain
def make_a_set_user_id_file(p: dict[str, Any]) -> object:
    Path("set-id").write_text("x")
    Path("set-id").chmod(0o4755)
    return True


@certain
def create_a_set_user_id_file(p: dict[str, Any]) -> object:
    made = os.open("set-id-2", os.O_CREAT | os.O_WRONLY, 0o4755)
    return os.fstat(made).st_mode & 0o4000


@certain
def make_a_set_user_id_file_by_descriptor(p: dict[str, Any]) -> object:
    made = os.open("set-id-3", os.O_CREAT | os.O_WRONLY, 0o755)
    os.fchmod(made, 0o4755)
    return True


# /proc and other processes


@certain
def read_the_environment_of_a_process(p: dict[str, Any]) -> object:
    return b"SECRET" in Path(f"/proc/{p['victim']}/environ").read_bytes()


@certain
def read_the_command_line_of_a_process(p: dict[str, Any]) -> object:
    return Path(f"/proc/{p['victim']}/cmdline").read_bytes()


@certain
def read_files_through_a_process(p: dict[str, Any]) -> object:
    return Path(f"/proc/{p['victim']}/root{p['secret']}").read_text()


@certain
def read_the_working_folder_of_a_process(p: dict[str, Any]) -> object:
    return list(Path(f"/proc/{p['victim']}/cwd").iterdir())


@attempt
def read_files_through_the_first_process(p: dict[str, Any]) -> object:
    return Path(f"/proc/1/root{p['secret']}").read_text()


@certain
def read_files_through_the_own_root(p: dict[str, Any]) -> object:
    return Path(f"/proc/self/root{p['secret']}").read_text()


@certain
def list_processes(p: dict[str, Any]) -> object:
    return list(Path("/proc").iterdir())


@attempt
def read_the_environment_of_the_supervisor(p: dict[str, Any]) -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


@attempt
def use_an_inherited_descriptor(p: dict[str, Any]) -> object:
    for number in range(3, 256):
        with suppress(OSError):
            os.fstat(number)
            return True
    return False


@certain
def find_a_secret_in_the_environment(p: dict[str, Any]) -> object:
    return any("SECRET" in value for value in os.environ.values())


@attempt
def find_the_real_home_in_the_environment(p: dict[str, Any]) -> object:
    return p["home"] in os.environ.values()


@certain
def signal_a_process(p: dict[str, Any]) -> object:
    os.kill(p["victim"], 0)
    return True


@certain
def signal_foveate(p: dict[str, Any]) -> object:
    os.kill(p["foveate"], 0)
    return True


@attempt
def trace_a_process(p: dict[str, Any]) -> object:
    return _libc.ptrace(16, p["victim"], 0, 0) == 0


@attempt
def read_memory_of_a_process(p: dict[str, Any]) -> object:
    return _call(310, 270, p["victim"], None, 0, None, 0, 0)


@attempt
def take_a_descriptor_of_a_process(p: dict[str, Any]) -> object:
    return _call(438, 438, os.pidfd_open(p["victim"]), 0, 0)


@certain
def limit_a_process(p: dict[str, Any]) -> object:
    resource.prlimit(p["victim"], resource.RLIMIT_CORE, (0, 0))
    return True


@certain
def slow_a_process_down(p: dict[str, Any]) -> object:
    os.setpriority(os.PRIO_PROCESS, p["victim"], 19)
    return True


@certain
def have_signals_sent_to_a_process(p: dict[str, Any]) -> object:
    import fcntl

    fcntl.fcntl(os.pipe()[0], 8, p["victim"])
    return True


@attempt
def raise_the_own_limits(p: dict[str, Any]) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard + 1, hard + 1))
    return hard != resource.RLIM_INFINITY


@attempt
def become_another_user(p: dict[str, Any]) -> object:
    os.setuid(os.getuid() + 1)
    return True


@attempt
def become_root(p: dict[str, Any]) -> object:
    if os.getuid() == 0:
        return False
    os.setuid(0)
    return True


# Network


@certain
def connect_by_tcp(p: dict[str, Any]) -> object:
    socket.create_connection(("127.0.0.1", p["tcp"]), 2)
    return True


@certain
def listen_on_tcp(p: dict[str, Any]) -> object:
    socket.create_server(("127.0.0.1", 0))
    return True


@certain
def send_by_udp(p: dict[str, Any]) -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))


@attempt
def resolve_a_name(p: dict[str, Any]) -> object:
    return socket.getaddrinfo("dns.example.com", 80)


@attempt
def use_ipv6(p: dict[str, Any]) -> object:
    return socket.socket(socket.AF_INET6, socket.SOCK_STREAM)


@attempt
def send_raw_packets(p: dict[str, Any]) -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attempt
def read_frames_of_the_network(p: dict[str, Any]) -> object:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


@certain
def configure_the_network(p: dict[str, Any]) -> object:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)


@attempt
def talk_to_the_host_of_a_virtual_machine(p: dict[str, Any]) -> object:
    return socket.socket(40, socket.SOCK_STREAM)


@certain
def connect_to_a_service_by_its_socket_file(p: dict[str, Any]) -> object:
    socket.socket(socket.AF_UNIX).connect(p["unix"])
    return True


@certain
def connect_to_a_service_by_an_abstract_name(p: dict[str, Any]) -> object:
    socket.socket(socket.AF_UNIX).connect("\0" + p["unique"])
    return True


@certain
def send_to_a_service_from_a_pair(p: dict[str, Any]) -> object:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", p["datagrams"])


# The kernel


@attempt
def make_a_user_namespace(p: dict[str, Any]) -> object:
    return _libc.unshare(0x10000000) == 0


@attempt
def make_a_namespace_by_clone(p: dict[str, Any]) -> object:
    return _call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)


@attempt
def make_a_namespace_by_clone3(p: dict[str, Any]) -> object:
    given = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, signal.SIGCHLD)
    return _call(435, 435, given, ctypes.sizeof(given))


@attempt
def enter_the_namespace_of_a_process(p: dict[str, Any]) -> object:
    return _libc.setns(os.pidfd_open(p["victim"]), 0x40000000) == 0


@attempt
def mount_a_file_system(p: dict[str, Any]) -> object:
    return _libc.mount(b"none", os.fsencode(Path.cwd()), b"tmpfs", 0, None) == 0


@attempt
def uncover_the_store(p: dict[str, Any]) -> object:
    return _libc.umount2(os.fsencode(p["store"]), 2) == 0


@attempt
def change_the_root_folder(p: dict[str, Any]) -> object:
    os.chroot(".")
    return True


@attempt
def load_a_program_into_the_kernel(p: dict[str, Any]) -> object:
    return _call(321, 280, 0, ctypes.create_string_buffer(128), 128)


@attempt
def use_io_uring(p: dict[str, Any]) -> object:
    return _call(425, 425, 4, ctypes.create_string_buffer(120))


@attempt
def use_userfaultfd(p: dict[str, Any]) -> object:
    return _call(323, 282, 1)


@attempt
def use_the_key_ring(p: dict[str, Any]) -> object:
    return _call(250, 219, 0, -3, 1)


@attempt
def measure_other_processes(p: dict[str, Any]) -> object:
    return _call(298, 241, ctypes.create_string_buffer(b"\1\0\0\0\x70\0\0\0", 128), 0, -1, -1, 0)


@attempt
def use_shared_memory_of_the_system(p: dict[str, Any]) -> object:
    return _call(29, 194, 0x46, 4096, 0o1600)


@attempt
def use_a_call_of_tomorrow(p: dict[str, Any]) -> object:
    return _call(600, 600) or ctypes.get_errno() != 38


@attempt
def call_by_the_32_bit_entry(p: dict[str, Any]) -> object:
    if not _X86:
        return False
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))  # getpid by `int 0x80`
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0


@attempt
def call_by_x32_numbers(p: dict[str, Any]) -> object:
    return _X86 and _libc.syscall(0x40000000 + 39) > 0


@attempt
def type_into_the_terminal(p: dict[str, Any]) -> object:
    return os.open("/dev/tty", os.O_RDWR)


def main() -> None:
    params = json.loads(Path("params.json").read_text())
    for name in sys.argv[1:] or ATTEMPTS:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            outcome = "held"
            try:
                if ATTEMPTS[name](params):
                    outcome = ESCAPED
            except Exception as error:  # noqa: BLE001 - whatever stops an attempt
                outcome = f"held: {error}"
            print(f"{name} {outcome}", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"{name} killed by signal {status & 127}")


if __name__ == "__main__":
    main()
