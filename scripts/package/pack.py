# SPDX-License-Identifier: Apache-2.0
"""Packs a tree as avsg-VERSION-TARGET-ARCH.run, a self-extracting installer that checks itself.

The same tree, facts and SOURCE_DATE_EPOCH give the same file: names are sorted, owner and modes fixed, times
set to SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT_PARTS = ("install.sh.in", "target.sh.in", "change.sh.in")
MANIFEST, INFO, UNINSTALL = "MANIFEST.sha256", "version.info", "scripts/uninstall.sh"
BLOCK_KIB = 4  # what a small file or a directory takes on disk


def installer(facts: dict[str, str], payload: bytes) -> bytes:
    """The installer's script and its payload; without payload, the uninstaller."""
    script = "".join((HERE / part).read_text() for part in SCRIPT_PARTS)
    rest = _fill(script, {**facts, "PAYLOAD_BYTES": str(len(payload))}).encode() + payload
    boot = {"REST_BYTES": str(len(rest)), "REST_SHA256": hashlib.sha256(rest).hexdigest()}
    return _fill((HERE / "boot.sh.in").read_text(), {**facts, **boot}).encode() + rest


def _fill(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def paths_of(tree: Path) -> list[str]:
    """Files and links below `tree`, sorted; names that a manifest cannot hold are refused."""
    paths = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if not _is_directory(path))
    for path in paths:
        if not path.isprintable() or "\\" in path or ": " in path:
            raise SystemExit(
                f"{path!r} cannot be packed: rename it without control characters, backslash or ': '."
            )
        if not (tree / path).exists():
            raise SystemExit(f"{path} is a link to nothing, which cannot be packed: remove it or its cause.")
    return paths


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def write_info(tree: Path, facts: dict[str, str]) -> None:
    """Writes uninstaller, manifest and version.info, which keeps the line that CANN's build has written."""
    uninstaller = tree / UNINSTALL
    uninstaller.parent.mkdir(exist_ok=True)
    uninstaller.write_bytes(installer(facts, b""))
    uninstaller.chmod(0o755)
    info = tree / INFO
    own = ("version", "target", "arch", "kernels", "manifest_sha256")
    lines = info.read_text().splitlines() if info.exists() else []
    lines = [line for line in lines if line.partition("=")[0] not in own]
    listed = [path for path in paths_of(tree) if path not in (MANIFEST, INFO)]
    manifest = "".join(f"{_sha256(tree / path)}  {path}\n" for path in listed)
    (tree / MANIFEST).write_text(manifest)
    values = [facts["VERSION"], facts["TARGET"], facts["ARCH"], facts["KERNELS"]]
    values.append(hashlib.sha256(manifest.encode()).hexdigest())
    lines += [f"{name}={value}" for name, value in zip(own, values)]
    info.write_text("\n".join(lines) + "\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def payload_of(tree: Path, epoch: int) -> bytes:
    """The tree as tar.gz, the same bytes for the same files on every machine with this zlib."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            member = archive.gettarinfo(path, path.relative_to(tree).as_posix())
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mtime = epoch
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            if member.islnk():  # the second name of a file is a file too
                member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def needed_kib(tree: Path) -> int:
    """Disk space of the installed tree in KiB, rounded up."""
    sizes = (0 if _is_directory(path) else path.lstat().st_size for path in tree.rglob("*"))
    return sum(BLOCK_KIB * (1 + -(-size // (1024 * BLOCK_KIB))) for size in sizes)


def pack(tree: Path, output: Path, *, version: str, target: str, arch: str, kernels: str, epoch: int) -> Path:
    """Writes the package of `tree` (vendors/avsg) to the directory `output` and returns its path."""
    facts = {"VERSION": version, "TARGET": target, "ARCH": arch, "KERNELS": kernels}
    facts["NEEDED_KIB"] = str(needed_kib(tree) + 2 * BLOCK_KIB)
    write_info(tree, facts)
    output.mkdir(parents=True, exist_ok=True)
    package = output / f"avsg-{version}-{target}-{arch}.run"
    unfinished = package.with_suffix(".run.part")
    unfinished.write_bytes(installer(facts, payload_of(tree, epoch)))
    unfinished.chmod(0o755)
    unfinished.replace(package)
    return package


def main() -> None:
    """Prints the path of the package; needs SOURCE_DATE_EPOCH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("output", type=Path)
    for name in ("version", "target", "arch"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kernels", default="")
    options = vars(parser.parse_args())
    print(pack(**options, epoch=int(os.environ["SOURCE_DATE_EPOCH"])))


if __name__ == "__main__":
    main()
