"""The tables of the journeys, invented from fixed seeds: ``python tables.py hospital`` writes those of that story."""

import sys
from pathlib import Path

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


def _write_csv(path: Path, columns):
    pa.csv.write_csv(pa.table(columns), path, pa.csv.WriteOptions(quoting_style="needed"))


if __name__ == "__main__":
    {"hospital": hospital, "insurance": insurance, "advertising": advertising}[sys.argv[1]](Path())
