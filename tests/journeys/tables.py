"""The tables of the journeys, invented from fixed seeds: ``python tables.py hospital`` writes those of that story."""

import sys
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

_WARDS = np.array(["cardiology", "surgery", "neurology", "geriatrics", "general medicine"])
_OUTCOMES = np.array(["home", "home, with care", "nursing home"])
_REGIONS = np.array(["city", "suburb", "village", "coast"])
_DEVICES = np.array(["phone", "tablet", "desktop"])
_CAMPAIGN_PARTS, _ROWS_PER_PART = 4, 500_000


def hospital(folder):
    """Stays of patients, of whom some come back, with a postcode, a date, a ward and an outcome that holds a comma."""
    for name, people, seed in (("stays.csv", 700, 1), ("elsewhere.csv", 500, 2)):
        chance = np.random.default_rng(seed)
        stays = np.repeat(np.arange(people), chance.choice([1, 1, 1, 2, 2, 3, 5], people))
        age = chance.integers(18, 98, people)[stays]
        ward = chance.choice(_WARDS, len(stays))
        days = np.ceil(chance.lognormal(1.4, 0.7, len(stays))).astype(int)
        frail = (age - 62) / 9 + 1.2 * (ward == "geriatrics") + 0.15 * days + chance.normal(0, 1, len(stays))
        table = {
            "patient": [f"H{seed}{number:05d}" for number in stays],
            "postcode": [f"{number:05d}" for number in chance.integers(1_000, 9_999, people)[stays]],
            "admitted": np.datetime64("2025-01-01") + chance.integers(0, 365, len(stays)),
            "ward": ward,
            "age": age,
            "days": days,
            "outcome": _OUTCOMES[np.digitize(frail, [0.3, 2.2])],
        }
        _write_csv(folder / name, table)


def insurance(folder):
    """Policies with what their claims cost: most a little, a few very much."""
    for name, rows, seed in (("claims.csv", 6_000, 3), ("next-year.csv", 4_000, 4)):
        chance = np.random.default_rng(seed)
        age, power = chance.integers(18, 90, rows), chance.integers(40, 250, rows)
        region = chance.choice(_REGIONS, rows)
        middle = 6.3 + 0.006 * (power - 100) + 0.9 * (age < 26) + 0.4 * (region == "city")
        table = {
            "policy": np.arange(rows) + 10_000_000 * seed + 7,
            "age": age,
            "power": power,
            "region": region,
            "bonus": np.round(chance.uniform(0.5, 1.5, rows), 2),
            "paid": np.round(np.exp(middle + chance.normal(0, 0.8, rows)), 2),
        }
        _write_csv(folder / name, table)


def advertising(folder):
    """Four million impressions in a folder for each of two months, each of four Parquet files; few were clicked."""
    for month in (1, 2):
        target = folder / f"2026-{month:02d}"
        target.mkdir()
        for part in range(_CAMPAIGN_PARTS):
            chance, rows = np.random.default_rng([5, month, part]), _ROWS_PER_PART
            hour, age = chance.integers(0, 24, rows), chance.integers(18, 70, rows)
            device, bid = chance.choice(_DEVICES, rows), np.round(chance.lognormal(0, 0.6, rows), 4)
            score = -2.2 + 0.5 * (device == "phone") - 0.02 * (age - 40) + 0.4 * bid
            start = np.datetime64(f"2026-{month:02d}-{1 + 7 * part:02d}T00:00:00", "ms")
            columns = {
                "shown": start + chance.integers(0, 7 * 86_400_000, rows).astype("timedelta64[ms]"),
                "hour": hour.astype(np.int8),
                "age": age.astype(np.int8),
                "device": device,
                "bid": bid,
                "clicked": (chance.random(rows) < 1 / (1 + np.exp(-score))).astype(np.int8),
            }
            pq.write_table(pa.table(columns), target / f"part-{part}.parquet")


def months(folder):
    """Tables that grow from month to month: a German hospital's, a French insurer's and an advertiser's."""
    chance = np.random.default_rng(6)
    for month, first in (("Januar", 0), ("Februar", 300)):
        stays = chance.permutation(np.repeat(np.arange(first, first + 600), chance.choice([1, 1, 2, 3, 6], 600)))
        back = np.where(chance.random(len(stays)) < 0.3, "ja", "nein")
        back[:5] = ""
        table = {
            "Patienten-Nr.": stays * 7919 + 10_000_000,
            "Fall-Nr.": np.arange(len(stays)) * 37 + 2_000_000 + 999_000 * (first > 0),
            "Alter": (stays * 31) % 71 + 20,
            "Abteilung": chance.choice(["Chirurgie", "Innere", "Geriatrie", "Urologie"], len(stays)),
            "Wiederaufnahme": back,
        }
        _write_semicolons(folder / f"Entlassungen {month}.csv", table, "cp1252")
    for month, form, first in (("janvier", "NFC", 0), ("f\xe9vrier", "NFD", 250)):
        people = chance.permutation(np.repeat(np.arange(first, first + 500), chance.choice([1, 2, 4], 500)))
        table = {
            "N\xb0 assur\xe9": [normalize(form, f"Zo\xe9-{number:04d}") for number in people],
            "\xe2ge": (people * 17) % 60 + 20,
            "r\xe9gion": chance.choice(["Bretagne", "Corse", "Alsace"], len(people)),
            "\xc9tat": chance.choice(["bon", "moyen", "mauvais"], len(people)),
        }
        _write_semicolons(
            folder / f"s\xe9jours {month}.csv", {normalize(form, k): v for k, v in table.items()}, "utf-8-sig"
        )
    clicks = []
    for name, first in (("jan", 0), ("feb", 700)):
        users = chance.permutation(np.repeat(np.arange(first, first + 900), chance.integers(1, 9, 900)))
        clicks.append(
            pa.table(
                {
                    "user": users * 104_729 + 5,
                    "seconds": chance.integers(0, 2_678_400, len(users)) + 2_678_400 * (first > 0),
                    "app": chance.integers(0, 40, len(users)),
                    "converted": (chance.random(len(users)) < 0.1).astype(np.int8),
                }
            )
        )
        pq.write_table(clicks[-1], folder / f"{name}.parquet")
    pq.write_table(pa.concat_tables(clicks), folder / "q1.parquet")


def _write_semicolons(path, columns, encoding):
    rows = zip(*(map(str, values) for values in columns.values()), strict=True)
    lines = [";".join(columns), *map(";".join, rows)]
    path.write_text("".join(f"{line}\r\n" for line in lines), encoding=encoding)


def _write_csv(path: Path, columns):
    pa.csv.write_csv(pa.table(columns), path, pa.csv.WriteOptions(quoting_style="needed"))


if __name__ == "__main__":
    {"hospital": hospital, "insurance": insurance, "advertising": advertising, "months": months}[sys.argv[1]](Path())
