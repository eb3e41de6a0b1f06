"""No message of another library: what a stranger's table holds is in no error, cause, context, note or warning."""

import functools
import importlib
import inspect
import itertools
import re
import uuid
import warnings
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import labeldp as dp
from labeldp import audit
from labeldp.errors import InputError, LabelDPError
from labeldp.learning import (
    boosting,
    cells,
    convex,
    generators,
    images,
    inference,
    metrics,
    ratings,
    sklearn,
    stages,
    tables,
    torch,
)
from labeldp.learning.choice import Held
from labeldp.learning.metrics import Units
from labeldp.testing import check_query

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
#: Names of parameters in which tables and columns of strangers come in, and the classes that ``learn`` returns.
NAMES = {
    "X", "at", "canaries", "cells", "class_weights", "clusters", "columns", "distribution", "distributions",
    "features", "first", "groups", "identity", "images", "labels", "mixing", "predicted", "prior",
    "probabilities", "public", "public_rows", "released", "rows", "sample_weight", "scores", "second", "table",
    "truth", "units", "unlabelled", "values",
}  # fmt: skip
RETURNED = (tables.TableModel, tables.NetworkModel)
HIDDEN = "SECRET-7f3a"
ROWS, SPACE, GRID = 240, dp.Classes(["no", "yes"]), dp.Interval(0, 1, 0.25)
LABELS, HALVES = np.array(["no", "yes"] * (ROWS // 2)), np.arange(ROWS) % 2
X = np.random.default_rng(0).normal(size=(ROWS, 2)) + HALVES[:, None]
MIXED = [0, 1] * (ROWS // 2 - 1) + [0, HIDDEN]
#: Odd values as a column or a matrix in every container.
ODD = MappingProxyType(
    {
        "list": MIXED,
        "objects": np.array(MIXED, object),
        "series": pd.Series(MIXED),
        "texts": np.array([*map(str, MIXED)]),
        "arrow": pa.array(map(str, MIXED)),
        "matrix": np.array([MIXED, MIXED], object).T,
        "text matrix": np.array([MIXED, MIXED], str).T,
        "frame": pd.DataFrame({"a": MIXED, "b": X[:, 1]}),
        "text frame": pd.DataFrame({"a": map(str, MIXED), "b": X[:, 1]}),
        "mapping": {"a": MIXED, "b": X[:, 1]},
        "table": pa.table({"a": [*map(str, MIXED)], "b": X[:, 1]}),
        "square": np.full((5, 5), HIDDEN),
    }
)


def doors():
    """Every documented function and method with a parameter of these names, with the classes that have it."""
    found = {}
    sections = re.split(r"^## ", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    titled = [(re.match(r"`([\w.]+)`\n", section), section) for section in sections]
    owners = [
        getattr(importlib.import_module(title[1]), name)
        for title, section in titled
        if title
        for name in re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    ]
    for owner in (*owners, *RETURNED):
        if inspect.isclass(owner) and issubclass(owner, Exception):  # the package makes its errors and warnings
            continue
        members = [value for _, value in inspect.getmembers(owner, inspect.isroutine)] if inspect.isclass(owner) else []
        for value in (owner, *members):
            name = getattr(value, "__qualname__", "_")
            if "_" in (name[0], name.partition(".")[2][:1]) or not value.__module__.startswith("labeldp"):
                continue
            for parameter in inspect.signature(value).parameters.values():
                kind = str(parameter.annotation)
                open_to_all = re.search("object|Any|'inspect._empty'", kind) or (
                    parameter.name != "rows" and "ndarray" in kind
                )
                if parameter.name in NAMES and open_to_all:
                    found.setdefault(f"{name}({parameter.name})", []).append(owner.__name__)
    return found


def said(call, /, *arguments, **named):
    """All that a call says: its error with its cause, context and notes, and its warnings."""
    words, errors = [], []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            call(*arguments, **named)
        except Exception as error:  # noqa: BLE001 (whatever it is)
            errors.append(error)
    for error in errors:
        words += [str(error), repr(error), *getattr(error, "__notes__", ())]
        errors += [each for each in (error.__cause__, error.__context__) if each is not None and each not in errors]
    return errors, "\n".join([*words, *(str(each.message) for each in warned)])


@functools.cache
def given():
    """Releases, answers, a generator and models, which are made once."""
    release = dp.Curator(LABELS, SPACE, name="y").randomize(epsilon=3.0)
    form = dp.Form.of({"a": HALVES, "b": X[:, 1].round(1)})
    generator = dp.Generator(SPACE, form, dp.Source("public", "made up"), lambda codes: {"a": codes, "b": codes * 0.0})
    pixels = np.random.default_rng(1).integers(0, 255, size=(ROWS, 1, 8, 8)).astype(np.uint8)
    return SimpleNamespace(
        release=release,
        numbers=dp.Curator(HALVES, GRID).randomize(epsilon=3.0),
        counts=curator().answer(dp.NoisyHistogram(SPACE, 1.0, HALVES)),
        means=dp.Curator(HALVES, GRID).answer(dp.NoisyMean(GRID, 1.0, HALVES)),
        moments=curator().answer(dp.LabelMoments(SPACE, 1.0, 1e-3, X)),
        sums=dp.Curator(HALVES, GRID).answer(dp.NumberMoments(GRID, 1.0, 1e-3, X)),
        exchanged=curator().answer(dp.ExchangedLabels(SPACE, dp.PeerExchange(0.2), HALVES, 1e-6)),
        generator=generator,
        double=dp.DoubleResponse(SPACE, 1.0, generator),
        rows=curator().randomize_rows(dp.DummyResponse(SPACE, 1.0)),
        tree=cells.cluster_tree(X, 4),
        clusters=cells.cluster(X, 2),
        pixels=pixels,
        softmax=sklearn.SoftmaxRegression(l2=0.1).fit(X, release),
        ridge=sklearn.ReleasedLabelRegressor(Ridge()).fit(X, dp.Release.public(HALVES, GRID)),
        canaries=audit.plant_canaries(SPACE, ROWS, 50),
    )


def curator():
    """A curator of the labels with a large budget."""
    return dp.Curator(LABELS, SPACE, budget=(700.0, 0.1), name="y")


@functools.cache
def models(folder):
    """Models of the columns a and b: of a table, and a network."""
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": LABELS})
    shared = given().release.save(folder, table, keep=["a", "b"])
    network = tables.ModelChoice("torch:mlp", training={"epochs": 1})
    return tables.learn(shared, model="softmax").model, tables.learn_network(shared, network).model


#: An unfitted estimator of each documented class, its features, and what it is fitted to.
ESTIMATORS = {
    "SoftmaxRegression": lambda at: (sklearn.SoftmaxRegression(l2=0.1), X, at.release),
    "ReleasedLabelRegressor": lambda at: (sklearn.ReleasedLabelRegressor(Ridge()), X, at.numbers),
    "ReleasedLabelClassifier": lambda at: (
        sklearn.ReleasedLabelClassifier(LogisticRegression()),
        X,
        at.release,
    ),
    "CalibratedClassifier": lambda at: (sklearn.CalibratedClassifier(sklearn.SoftmaxRegression(l2=0.1)), X, at.release),
    "BoostingClassifier": lambda at: (sklearn.BoostingClassifier(rounds=2, folds=2), X, at.release),
    "BoostingRegressor": lambda at: (sklearn.BoostingRegressor(rounds=2, folds=2), X, at.numbers),
    "NeighborsClassifier": lambda at: (sklearn.NeighborsClassifier(k=9), X, at.release),
    "NeighborsRegressor": lambda at: (sklearn.NeighborsRegressor(k=9), X, at.numbers),
    "TreeClassifier": lambda at: (sklearn.TreeClassifier([at.tree]), at.tree.leaves, at.release),
    "TreeRegressor": lambda at: (sklearn.TreeRegressor([at.tree]), at.tree.leaves, at.numbers),
    "CellClassifier": lambda at: (sklearn.CellClassifier(at.clusters), X, at.counts),
    "CellRegressor": lambda at: (sklearn.CellRegressor(at.clusters), X, at.means),
    "MomentClassifier": lambda at: (sklearn.MomentClassifier(), X, at.moments),
    "MomentRegressor": lambda at: (sklearn.MomentRegressor(), X, at.sums),
    "ConvexClassifier": lambda at: (convex.ConvexClassifier(region=convex.Ball(5.0)), X, at.release),
    "ConvexRegressor": lambda at: (convex.ConvexRegressor(region=convex.Ball(5.0)), X, at.numbers),
    "EvidenceRidge": lambda _: (sklearn.EvidenceRidge(), X, HALVES * 1.0),
    "KernelClassifier": lambda at: (sklearn.KernelClassifier(), X, at.release),
    "PatchFeatures": lambda at: (images.PatchFeatures(filters=2), at.pixels, None),
    "GraphFeatures": lambda _: (images.GraphFeatures(3), X, None),
    "EncoderFeatures": lambda _: (images.EncoderFeatures(2), X, None),
    "KernelFeatures": lambda _: (images.KernelFeatures(components=4), X, None),
    "PatchClassifier": lambda at: (images.PatchClassifier((4,), filters=2), at.pixels, at.release),
    "TorchClassifier": lambda at: (torch.TorchClassifier(torch.mlp(2, 2, 4), epochs=1), X, at.release),
    "MultiStage": lambda _: (stages.MultiStage(sklearn.SoftmaxRegression(l2=0.1), 4.0), X, curator()),
    "ConsensusRetraining": lambda at: (stages.ConsensusRetraining(sklearn.SoftmaxRegression(l2=0.1)), X, at.release),
    "ResampledClassifier": lambda at: (sklearn.ResampledClassifier(generator=lambda c: X[c]), X, at.release),
    "SoftLabelClassifier": lambda at: (sklearn.SoftLabelClassifier(), X, at.counts),
    "FactorizationClassifier": lambda _: (
        ratings.FactorizationClassifier(factors=1, rounds=4, unused=2, kept=2),
        np.column_stack([HALVES, np.arange(ROWS) % 5, X]),
        dp.Release.public(HALVES, dp.Classes([0, 1])),
    ),
    "AutoClassifier": lambda at: (sklearn.AutoClassifier(folds=2), X, at.release),
    "AutoRegressor": lambda at: (sklearn.AutoRegressor(folds=2), X, at.numbers),
    "ImageEnsemble": lambda at: (torch.ImageEnsemble(training={"epochs": 1}), at.pixels, at.release),
}
#: Further arguments of their methods.
MORE = {"setting": 0, "replaced": 0.2, "cells": HALVES}
FITS = ("fit", "fit_head", "fit_setting", "fit_transform", "image_rows", "partial_fit", "path")


@functools.cache
def fitted(name):
    """A fitted estimator, with its features and what it was fitted to."""
    model, features, target = ESTIMATORS[name](given())
    more = {"replaced": 0.2} if name == "ResampledClassifier" else {}
    more |= {"cells": HALVES} if name in ("SoftLabelClassifier", "CellClassifier", "CellRegressor") else {}
    return model.fit(features, *([] if target is None else [target]), **more), features, target


def of_estimator(owner, method, parameter):
    """A call of a method of an estimator with odd values for one parameter."""
    model, features, target = ESTIMATORS[owner](given()) if method in FITS else fitted(owner)
    call, release = getattr(model, method), given().release
    more = {"X": features, "y": target, "release": target, "features": features, "rows": None, "setting": 0}
    more |= {"replaced": 0.2, "cells": HALVES, "held": Held(X, release, HALVES, 2, Units.of("rows", len(X)))}
    named = {name: more[name] for name in inspect.signature(call).parameters if more.get(name) is not None}
    return lambda odd, _: call(**{**named, parameter: odd})


def prior_asked(kind):
    """A function of odd values that asks the prior that is made of them."""
    return lambda odd, _: kind(odd).ask(curator(), epsilon=1.0)


def table_release(at, mechanism, **options):
    """A release of the table by a mechanism."""
    return dp.release_table(at.csv, "y", SPACE, 1.0, at.folder(), mechanism=mechanism, drop=[], unit="row", **options)


#: A call with odd values for each other parameter.
CALLS = {
    "Answer.save(table)": lambda odd, at: at.exchanged.save(at.folder(), odd, keep=["a"]),
    "BinResponse(prior)": lambda odd, _: dp.BinResponse(GRID, 1.0, odd),
    "Channel.likelihood(released)": lambda odd, at: at.release.channel.likelihood(odd),
    "Channel.numbers(released)": lambda odd, at: at.numbers.channel.numbers(odd),
    "Channel.possible(released)": lambda odd, at: at.release.channel.possible(odd),
    "Channel.squares(released)": lambda odd, at: at.numbers.channel.squares(odd),
    "ChannelLoss(class_weights)": lambda odd, at: torch.ChannelLoss(at.release, "unbiased", class_weights=odd),
    "ClassProbabilities(values)": lambda odd, at: metrics.log_loss(
        at.release, dp.ClassProbabilities(odd, ["no", "yes"])
    ),
    "ClassProbabilities.of(features)": lambda odd, at: dp.ClassProbabilities.of(at.softmax, odd),
    "Classes.encode(labels)": lambda odd, _: SPACE.encode(odd),
    "ClusterMechanism(clusters)": lambda odd, at: table_release(at, dp.ClusterMechanism(odd)),
    "ClusterParameters.query(clusters)": lambda odd, _: parameters().query(odd),
    "ClusterParameters.response(clusters)": lambda odd, _: parameters().response([[0.5, 0.5]] * 2, odd),
    "ClusterParameters.response(distributions)": lambda odd, _: parameters().response(odd, HALVES),
    "ClusterPrior(clusters)": prior_asked(stages.ClusterPrior),
    "ClusterResponse(clusters)": lambda odd, _: dp.ClusterResponse(SPACE, 1.0, [[0.5, 0.5]] * 2, odd),
    "ClusterResponse(distributions)": lambda odd, _: dp.ClusterResponse(SPACE, 1.0, odd, HALVES),
    "ClusterResponse.uniform(clusters)": lambda odd, _: dp.ClusterResponse.uniform(SPACE, 1.0, odd),
    "coefficients(table)": lambda odd, at: inference.coefficients(at.release, odd, ["a"]),
    "coefficients(units)": lambda odd, at: inference.coefficients(at.release, {"a": HALVES}, ["a"], units=odd),
    "DeclaredChannel.matrix(probabilities)": lambda odd, _: dp.DeclaredChannel.matrix(SPACE, odd),
    "Release.randomized(units)": lambda odd, _: dp.Release.randomized(
        LABELS, dp.RandomizedResponse(SPACE, 1.0), declared_by="a survey", units=odd
    ),
    "describe(units)": lambda odd, at: inference.describe(at.release, units=odd),
    "prediction_sets(features)": lambda odd, at: inference.prediction_sets(at.softmax, odd, at.release),
    "prediction_sets(units)": lambda odd, at: inference.prediction_sets(at.softmax, X, at.release, units=odd),
    "mean_difference(groups)": lambda odd, at: inference.mean_difference(at.release, odd, treated=1),
    "mean_difference(units)": lambda odd, at: inference.mean_difference(at.release, HALVES, treated=1, units=odd),
    "treatment_effect(table)": lambda odd, at: inference.treatment_effect(
        at.release, odd, treatment="a", treated=1, propensity=0.5
    ),
    "treatment_effect(units)": lambda odd, at: inference.treatment_effect(
        at.release, {"a": HALVES}, treatment="a", treated=1, propensity=0.5, units=odd
    ),
    "Curator(identity)": lambda odd, _: dp.Curator(LABELS, SPACE, identity=odd),
    "Curator(labels)": lambda odd, _: dp.Curator(odd, SPACE),
    "Curator(units)": lambda odd, _: dp.Curator(LABELS, SPACE, units=odd),
    "Curator.answer(rows)": lambda odd, _: curator().answer(dp.NoisyHistogram(SPACE, 1.0), odd),
    "Curator.randomize(rows)": lambda odd, _: curator().randomize(epsilon=1.0, rows=odd),
    "Curator.randomize_rows(features)": lambda odd, at: curator().randomize_rows(
        at.double, odd, divergences={2.0: 1.0}
    ),
    "Curator.randomize_rows(rows)": lambda odd, _: curator().randomize_rows(dp.DummyResponse(SPACE, 1.0), rows=odd),
    "DoubleResponse.misfits(features)": lambda odd, at: at.double.misfits(odd),
    "DoubleResponse.original_features(features)": lambda odd, at: at.double.original_features(odd, ROWS),
    "ExchangedLabels(clusters)": lambda odd, _: dp.ExchangedLabels(SPACE, dp.PeerExchange(0.2), odd, 1e-6),
    "ShuffledLabels(clusters)": lambda odd, _: dp.ShuffledLabels(SPACE, dp.CellShuffle(1.0), odd, 1e-6),
    "FactorizationClassifier(public_rows)": lambda odd, _: ratings.FactorizationClassifier(
        factors=1, rounds=4, unused=2, kept=2, public_rows=odd
    ).fit(*fitted("FactorizationClassifier")[1:]),
    "FixedPrior(probabilities)": prior_asked(stages.FixedPrior),
    "Form.of(public)": lambda odd, _: dp.Form.of(odd),
    "Form.read(rows)": lambda odd, at: at.generator.form.read(odd),
    "Form.table(rows)": lambda odd, at: at.generator.form.table(odd),
    "GroupResponse(groups)": lambda odd, _: dp.GroupResponse(SPACE, 1.0, groups=odd),
    "GroupResponse(prior)": lambda odd, _: dp.GroupResponse(SPACE, 1.0, odd),
    "ImageRows(features)": lambda odd, at: images.ImageRows(odd, at.tree.leaves, [at.tree]),
    "ImageRows.of(features)": lambda odd, _: images.ImageRows.of(odd),
    "Interval.encode(labels)": lambda odd, _: GRID.encode(odd),
    "Knowledge(features)": lambda odd, at: audit.attack_release(
        at.release, audit.Knowledge(at.softmax, features=odd), truth=dp.Release.public(LABELS, SPACE)
    ),
    "Knowledge(mixing)": lambda odd, at: audit.attack_release(
        at.release, audit.Knowledge(np.full((ROWS, 2), 0.5), mixing=odd)
    ),
    "Knowledge(prior)": lambda odd, at: audit.attack_release(at.release, audit.Knowledge(prior=odd)),
    "Knowledge(probabilities)": lambda odd, at: audit.attack_release(at.release, audit.Knowledge(odd)),
    "LabelMoments(features)": lambda odd, _: dp.LabelMoments(SPACE, 1.0, 1e-3, odd),
    "MemberFits.frame(features)": lambda odd, _: fitted("AutoClassifier")[0].frame(odd),
    "Model.predict(images)": lambda odd, at: at.network.predict(None, odd),
    "Model.predict(table)": lambda odd, at: at.model.predict(odd),
    "Model.predict_proba(images)": lambda odd, at: at.network.predict_proba(None, odd),
    "Model.predict_proba(table)": lambda odd, at: at.network.predict_proba(odd),
    "Neighbourhood.sentence(second)": lambda odd, _: audit.Neighbourhood().sentence(odd, ROWS),
    "NoisyArgmax(cells)": lambda odd, _: dp.NoisyArgmax(SPACE, 1.0, odd),
    "NoisyHistogram(cells)": lambda odd, _: dp.NoisyHistogram(SPACE, 1.0, odd),
    "NoisyMean(cells)": lambda odd, _: dp.NoisyMean(GRID, 1.0, odd),
    "NoisyQuantile(cells)": lambda odd, _: dp.NoisyQuantile(GRID, 1.0, 0.5, odd),
    "NoisyTopK(cells)": lambda odd, _: dp.NoisyTopK(SPACE, 1.0, odd, top=1),
    "NumberMoments(features)": lambda odd, _: dp.NumberMoments(GRID, 1.0, 1e-3, odd),
    "ObservedPairs(distribution)": lambda odd, _: audit.ObservedPairs(list(LABELS), SPACE, [0, 1], odd),
    "ObservedPairs(labels)": lambda odd, _: audit.ObservedPairs(odd, SPACE, [0, 1], [0.5, 0.5]),
    "OptimalResponse(prior)": lambda odd, _: dp.OptimalResponse(GRID, 1.0, odd),
    "PatchClassifier.predict_features(features)": lambda odd, _: fitted("PatchClassifier")[0].predict_features(odd),
    "PeerMechanism(clusters)": lambda odd, at: table_release(at, dp.PeerMechanism(odd, 1e-6)),
    "ShuffleMechanism(clusters)": lambda odd, at: table_release(at, dp.ShuffleMechanism(odd, 1e-6)),
    "PlantedPairs(canaries)": lambda odd, _: audit.PlantedPairs(list(LABELS), SPACE, odd),
    "PlantedPairs(labels)": lambda odd, _: audit.PlantedPairs(odd, SPACE, [0, 1]),
    "Prior.ask(features)": lambda odd, at: stages.ModelPrior(at.softmax).ask(curator(), odd),
    "Prior.ask(rows)": lambda odd, _: stages.UniformPrior().ask(curator(), rows=odd),
    "PriorResponse(prior)": lambda odd, _: dp.PriorResponse(SPACE, 1.0, odd),
    "PriorSubsetResponse(prior)": lambda odd, _: dp.PriorSubsetResponse(SPACE, 1.0, odd),
    "Release.expected_numbers(at)": lambda odd, at: at.numbers.expected_numbers(odd),
    "Release.noise_variance(at)": lambda odd, at: at.numbers.noise_variance(odd),
    "lightgbm_dataset(features)": lambda odd, at: boosting.lightgbm_dataset(odd, at.release),
    "start_scores(scores)": lambda odd, at: boosting.start_scores(at.release, odd),
    "Release.public(labels)": lambda odd, _: dp.Release.public(odd, SPACE),
    "Release.randomized(labels)": lambda odd, _: dp.Release.randomized(
        odd, dp.SubsetResponse(SPACE, 1.0), declared_by="a survey"
    ),
    "Release.save(table)": lambda odd, at: at.release.save(at.folder(), odd, keep=["a"]),
    "Release.targets(features)": lambda odd, at: at.release.targets(odd),
    "ReleasePrior(rows)": lambda odd, at: stages.ReleasePrior(at.release, odd).ask(curator()),
    "RowRelease.take(rows)": lambda odd, at: at.rows.take(odd),
    "TableModel.held_out_proba(table)": lambda odd, at: at.model.held_out_proba(at.release, odd),
    "TopKResponse(prior)": lambda odd, _: dp.TopKResponse(SPACE, 1.0, odd, 1),
    "accuracy_scorer(X)": lambda odd, at: metrics.accuracy_scorer(at.softmax, odd, at.release),
    "attack_folder(mixing)": lambda odd, at: audit.attack_folder(at.saved, at.model, mixing=odd),
    "attack_folder(truth)": lambda odd, at: audit.attack_folder(at.saved, at.model, truth=odd),
    "attack_release(groups)": lambda odd, at: audit.attack_release(at.release, groups=odd),
    "audit_mechanism(labels)": lambda odd, _: audit.audit_mechanism(lambda _, n: np.zeros(n), odd, 1.0, draws=9),
    "check_query(labels)": lambda odd, _: check_query(dp.NoisyHistogram(SPACE, 1.0), odd),
    "best_number_response(prior)": lambda odd, _: dp.best_number_response(GRID, 1.0, odd),
    "bound_exposure(cells)": lambda odd, at: audit.bound_exposure(odd, at.release),
    "canary_memorisation(scores)": lambda odd, at: audit.canary_memorisation(at.canaries, odd),
    "cluster(features)": lambda odd, _: cells.cluster(odd, 2),
    "cluster_prior_response(clusters)": lambda odd, _: dp.cluster_prior_response(curator(), odd, 1.0),
    "cluster_response(clusters)": lambda odd, _: dp.cluster_response(curator(), odd, 1.0),
    "cluster_tree(features)": lambda odd, _: cells.cluster_tree(odd, 4),
    "embed(features)": lambda odd, _: cells.embed(odd),
    "estimate_divergence(first)": lambda odd, _: audit.estimate_divergence(odd, X, LogisticRegression(), 2.0),
    "estimate_divergence(second)": lambda odd, _: audit.estimate_divergence(X, odd, LogisticRegression(), 2.0),
    "fit_cells(features)": lambda odd, at: generators.fit_cells(odd, at.release, "made up", "public"),
    "fit_cells(labels)": lambda odd, _: generators.fit_cells({"a": HALVES}, odd, "made up", "public"),
    "fit_copula(features)": lambda odd, at: generators.fit_copula(odd, at.release, "made up", "public"),
    "fit_copula(labels)": lambda odd, _: generators.fit_copula({"a": HALVES}, odd, "made up", "public"),
    "fit_interactively(features)": lambda odd, _: convex.fit_interactively(
        convex.ConvexClassifier(region=convex.Ball(5.0)), odd, curator(), epsilon=1.0
    ),
    "grid_cells(features)": lambda odd, _: cells.grid_cells(odd, 2, low=0.0, high=1.0),
    "held_out_cells(features)": lambda odd, at: cells.held_out_cells(odd, at.release),
    "likeliest_features(groups)": lambda odd, at: images.likeliest_features([X, X], at.release, odd),
    "log_likelihood_scorer(X)": lambda odd, at: metrics.log_likelihood_scorer(at.softmax, odd, at.release),
    "loss_profile(features)": lambda odd, at: audit.loss_profile(odd, at.release),
    "mean_in_cells(clusters)": lambda odd, _: sklearn.mean_in_cells(dp.Curator(HALVES, GRID), odd, 1.0),
    "moved_copies(images)": lambda odd, _: images.moved_copies(odd, 1),
    "repeated_success(prior)": lambda odd, _: audit.repeated_success(
        dp.RandomizedResponse(SPACE, 1.0).channel(), 2, odd
    ),
    "squared_scorer(X)": lambda odd, at: metrics.squared_scorer(at.ridge, odd, at.numbers),
    "tree_cells(features)": lambda odd, _: cells.tree_cells(odd, 4),
}
#: Arguments of metrics before those with names.
SCORED = {
    "accuracy": lambda at: {"release": at.release, "predicted": LABELS},
    "auc": lambda at: {"release": at.release, "scores": X[:, 0], "positive": "yes"},
    "balanced_accuracy": lambda at: {"release": at.release, "predicted": LABELS},
    "calibration": lambda at: {"release": at.release, "probabilities": np.full((ROWS, 2), 0.5), "positive": "yes"},
    "confusion_matrix": lambda at: {"release": at.release, "predicted": LABELS},
    "expected_cost": lambda at: {"release": at.release, "predicted": LABELS, "costs": [[0.0, 1.0], [1.0, 0.0]]},
    "log_likelihood": lambda at: {"release": at.release, "probabilities": np.full((ROWS, 2), 0.5)},
    "log_loss": lambda at: {"release": at.release, "probabilities": np.full((ROWS, 2), 0.5)},
    "mean_absolute_error": lambda at: {"release": at.numbers, "predicted": HALVES * 1.0},
    "mean_auc": lambda at: {"release": at.release, "probabilities": np.full((ROWS, 2), 0.5)},
    "mean_label": lambda at: {"release": at.numbers},
    "mean_squared_error": lambda at: {"release": at.numbers, "predicted": HALVES * 1.0},
    "r2": lambda at: {"release": at.numbers, "predicted": HALVES * 1.0},
    "recall": lambda at: {"release": at.release, "predicted": LABELS},
    "squared_gain": lambda at: {"release": at.numbers, "predicted": HALVES * 1.0},
}
#: What is no stranger's column: declarations that messages may show.
DECLARED = {"Classes(values)", "CellClassifier(clusters)", "CellRegressor(clusters)", "GroupResponse(groups)"}


def parameters():
    """Parameters of cluster response."""
    return dp.ClusterParameters.cluster_rr(SPACE, 1.0, 0.1)


def call_of(door):
    """A function that calls a door with odd values."""
    if door in CALLS:
        return CALLS[door]
    name, parameter = re.fullmatch(r"([\w.]+)\((\w+)\)", door).groups()
    if name in SCORED:
        return lambda odd, at: getattr(metrics, name)(**{**SCORED[name](at), parameter: odd})
    owner = next((each for each in ESTIMATORS if each in DOORS[door]), None)
    assert owner, f"add {door}, through which a stranger's table or column comes in, to this file"
    return of_estimator(owner, name.partition(".")[2], parameter)


DOORS = doors()


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """Objects that doors belong to, saved releases and models, and folders that do not exist yet."""
    root = tmp_path_factory.mktemp("at")
    numbers = itertools.count()
    saved = root / "saved"
    model, network = models(saved)
    pd.DataFrame({"a": X[:, 0], "y": LABELS}).to_csv(root / "t.csv", index=False)
    more = {"folder": lambda: root / f"folder-{next(numbers)}", "saved": saved, "csv": root / "t.csv"}
    return SimpleNamespace(**vars(given()), **more, model=model, network=network)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("door", sorted(DOORS.keys() - DECLARED))
def test_odd_values_are_in_no_message(door, at):
    """Odd values of a column that is asked for are refused by its name and kind, or used; none is ever shown.

    All columns of features (``X``) are asked for, so they are read, but what scikit-learn says of values that are no
    numbers is not passed on; of a matrix of numbers it is, since it names shapes, names and missing values there.
    """
    call = call_of(door)
    for container, odd in ODD.items():
        errors, words = said(call, odd, at)
        assert HIDDEN not in words, f"{door} shows a value of a {container}: {words}"
        assert "could not convert" not in words.lower(), f"{door} passes on a message: {words}"
        if door.rpartition("(")[2][:-1] in ("cells", "clusters", "identity", "predicted", "prior", "table", "units"):
            assert all(isinstance(error, LabelDPError) for error in errors), (
                f"{door} crashes on a {container}: {errors}"
            )


def polars():
    """The library, or a skipped test."""
    return pytest.importorskip("polars")


#: Tables with a column that nobody asks for, and that cannot be read.
UNASKED = {
    "mapping": lambda table: {**table, "y": MIXED},
    "mixed": lambda table: pd.DataFrame({**table, "y": MIXED}),
    "complex": lambda table: pd.DataFrame({**table, "y": np.arange(ROWS) * 1j}),
    "sparse": lambda table: pd.DataFrame({**table, "y": pd.arrays.SparseArray(HALVES * 1j)}),
    "twice": lambda table: pd.DataFrame({**table, "y": MIXED, "z": MIXED}).rename(columns={"z": "y"}),
    "person": lambda table: pd.DataFrame({**table, "person": MIXED}),
    "other length": lambda table: {**table, "y": MIXED[:3]},
    "polars": lambda table: polars().DataFrame({**table, "y": polars().Series(MIXED, dtype=polars().Object)}),
    "lazy": lambda table: polars().LazyFrame({**table, "y": [*map(str, MIXED)]}).cast({"y": polars().Int64}),
}
#: The doors that choose columns of a table.
CHOOSE = sorted(
    {door for door in DOORS if door.endswith("(table)")}
    | {f"DoubleResponse.{name}(features)" for name in ("misfits", "original_features")}
    | {"Curator.randomize_rows(features)", "Form.read(rows)"}
)


@pytest.mark.parametrize("table", UNASKED)
@pytest.mark.parametrize("door", CHOOSE)
def test_a_column_that_nobody_asked_for_is_not_read(door, table, at):
    """Whatever is in a column that no option and no model names, a call does what it does without it, and is silent."""
    features = {"a": HALVES, "b": X[:, 1].round(1)}
    assert said(call_of(door), UNASKED[table](features), at) == ([], "")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (MIXED, "expected values of one kind in the column 'a', found others (object);"),
        (np.arange(ROWS) * 1j, "expected values of one kind in the column 'a', found others (complex128);"),
    ],
)
def test_a_kept_column_that_cannot_be_read_is_named(odd, message, at):
    """The error names the column and its kind, and no other library's error is behind it; nothing is written."""
    folder = at.folder()
    errors, words = said(at.release.save, folder, pd.DataFrame({"a": odd}), keep=["a"])
    assert message in words
    assert len(errors) == 1
    assert not folder.exists()


@pytest.mark.usefixtures("as_users_call")
def test_the_names_of_columns_may_be_whole_numbers(at):
    """They are kept under the text of the number, and a single name is refused in words."""
    kept = at.release.save(at.folder(), pd.DataFrame(X), keep=[1])
    assert dp.public_columns(kept).column_names == ["1"]
    with pytest.raises(InputError, match="expected keep as a list of columns or 'all', found 1; write keep=\\[1\\]"):
        at.release.save(at.folder(), pd.DataFrame(X), keep=1)


def test_units_may_be_uuids():
    """Universally unique identifiers are one unit where they are equal, and a frame of two columns is refused."""
    units = [uuid.uuid5(uuid.NAMESPACE_URL, str(number // 2)) for number in range(ROWS)]
    assert dp.Curator(LABELS, SPACE, units=units).labels_of_a_unit == 2
    with pytest.raises(InputError, match=r"expected units .*, found something else \(DataFrame\)"):
        dp.Curator(LABELS, SPACE, units=pd.DataFrame({"a": HALVES, "b": HALVES}))
