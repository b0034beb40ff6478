# SPDX-License-Identifier: Apache-2.0
"""The MindSpore example of README.md runs, and its three modes write the same text."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_example_runs_and_its_modes_agree(tmp_path: Path) -> None:
    fences = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (example,) = [text for text in fences if "mindspore" in text]
    script = tmp_path / "example.py"
    script.write_text(example)
    paths = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, env=paths)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = dict(re.findall(r"^(resident|offload|avsg) (.*)$", done.stdout, re.M))
    text = {mode: line.split(" rows copied: ") for mode, line in lines.items()}
    assert text["resident"][0] == text["offload"][0] == text["avsg"][0]
    resident, offload, pooled = (int(text[mode][1]) for mode in ("resident", "offload", "avsg"))
    assert resident == 0 < pooled < offload
