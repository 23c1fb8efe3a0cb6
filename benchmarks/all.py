"""Run every benchmark and write docs/benchmarks.md.

python benchmarks/all.py [--smoke]
"""

import json
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    rows = []
    for path in sorted(HERE.glob("*.py")):
        if path.name in ("all.py", "measure.py"):
            continue
        print(f"{path.name} ...", file=sys.stderr)
        command = [sys.executable, str(path), "--json", *sys.argv[1:]]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows += [(path.stem, json.loads(line)) for line in done.stdout.splitlines()]
    lines = [
        "# Benchmarks",
        "",
        "Ratios of medians of interleaved runs against a named peer, both measured in one process",
        f"run on {platform.machine()}, Python {platform.python_version()}, by `make bench`.",
        "",
        "| benchmark | goal | ratio | target | met | peer | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, goal in rows:
        met = "yes" if goal["met"] else "no"
        lines.append(
            f"| {name} | {goal['goal']} | {goal['value']} | {goal['target']} | {met} "
            f"| {goal['peer']} | {goal['runs']} |"
        )
    target = HERE.parent / "docs" / "benchmarks.md"
    target.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
