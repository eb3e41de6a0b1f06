"""What leaves: the curator, releases, certificates, the ledger, and tables on disk."""

from labeldp.release._accounting import Accounted, accounted
from labeldp.release._answer import Answer
from labeldp.release._batches import release_batches
from labeldp.release._certificate import UNKNOWN, Certificate, Draw, File
from labeldp.release._cluster_response import (
    ClusterRelease,
    cluster_prior_response,
    cluster_response,
    share_of_prior,
)
from labeldp.release._counted_response import counted_response
from labeldp.release._curator import Curator
from labeldp.release._declaring import declared_classes
from labeldp.release._idx import read_idx
from labeldp.release._joining import joined
from labeldp.release._ledger import Entry, Ledger, spent_by_data
from labeldp.release._public import clusters_in, is_answer, public_columns, public_table
from labeldp.release._release import Release
from labeldp.release._row_release import RowRelease
from labeldp.release._splitting import public_split
from labeldp.release._table_curator import release_with
from labeldp.release._table_laws import AUTO, CLUSTER, COUNTED, MECHANISMS, NUMBER_MECHANISMS, PEER, PRIOR
from labeldp.release._table_release import TableRelease, kept_columns, ledger_path, release_table
from labeldp.release._tables import Table, open_table, typed
from labeldp.release._verifying import Check, Verdict, verify

__all__ = [
    "AUTO",
    "CLUSTER",
    "COUNTED",
    "MECHANISMS",
    "NUMBER_MECHANISMS",
    "PEER",
    "PRIOR",
    "UNKNOWN",
    "Accounted",
    "Answer",
    "Certificate",
    "Check",
    "ClusterRelease",
    "Curator",
    "Draw",
    "Entry",
    "File",
    "Ledger",
    "Release",
    "RowRelease",
    "Table",
    "TableRelease",
    "Verdict",
    "accounted",
    "cluster_prior_response",
    "cluster_response",
    "clusters_in",
    "counted_response",
    "declared_classes",
    "is_answer",
    "joined",
    "kept_columns",
    "ledger_path",
    "open_table",
    "public_columns",
    "public_split",
    "public_table",
    "read_idx",
    "release_batches",
    "release_table",
    "release_with",
    "share_of_prior",
    "spent_by_data",
    "typed",
    "verify",
]
