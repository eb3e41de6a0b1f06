"""The main job on real tables: a CSV with a sensitive label is released at several epsilons, and verified.

Run it with a folder to work in: ``python examples/demo.py demo``.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits

from labeldp import Classes, release_table, verify
from labeldp.report import save_lines

EPSILONS = (0.5, 1.0, 2.0, 4.0)


def tables(folder: Path) -> list[tuple[str, Path, str, Classes]]:
    """Two tables as people have them: CSV files with a label column that must not be shared."""
    cancer = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "diagnosis"})
    cancer["diagnosis"] = cancer["diagnosis"].map({0: "malignant", 1: "benign"})
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "digit"})
    found = []
    for name, frame, label, space in (
        ("breast cancer", cancer, "diagnosis", Classes(["benign", "malignant"])),
        ("digits", digits, "digit", Classes(range(10))),
    ):
        path = folder / f"{name.replace(' ', '-')}.csv"
        pd.DataFrame(frame).to_csv(path, index=False)
        found.append((name, path, label, space))
    return found


def main(folder: Path) -> None:
    """Release each table at each epsilon, verify each release, and show what is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(title="what a release keeps, from its parameters", title_justify="left")
    for column in ("table", "rows", "epsilon", "mechanism", "truth kept", "clean rows", "verified"):
        table.add_column(column)
    curves = {}
    for name, path, label, space in tables(folder):
        for epsilon in EPSILONS:
            output = folder / f"{path.stem}-epsilon-{epsilon:g}"
            # Four releases of the same labels cost the sum of their epsilons. In earnest you release once.
            done = release_table(path, label, space, epsilon, output, drop=[], budget=sum(EPSILONS))
            certificate, kept = done.certificate, done.certificate.expects
            verdict = verify(output)
            table.add_row(
                name,
                f"{certificate.rows:,}",
                f"{certificate.guarantee.epsilon:g}",
                certificate.draws[0].mechanism,
                f"{kept.truth_probability:.1%}",
                f"{int(certificate.rows * kept.clean_share):,} ({kept.clean_share:.1%})",
                "yes" if verdict.holds else "NO",
            )
            curves.setdefault(name, []).append((epsilon, kept.clean_share))
            if not verdict.holds:
                sys.exit(f"{output} does not verify")
    figure = save_lines(curves, folder / "kept.png", "What a released row keeps", "epsilon", "clean rows it is worth")
    console = Console(width=120)
    console.print(table)
    console.print(done.certificate.guarantee.sentence(), soft_wrap=True)
    console.print(
        f"So it is for each release alone. The four releases of each table together cost epsilon {sum(EPSILONS):g}, as "
        "its ledger knows: in earnest you release once.",
        soft_wrap=True,
    )
    console.print(f"files: {folder}    figure: {figure}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
