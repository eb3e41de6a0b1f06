"use strict";
// A second verifier of certificates, written from docs/certificate-format.md alone. It recomputes each epsilon whose law
// is a ratio of integers, the composition, the sentence and the list of what cannot be known, and says what it leaves.

const SCHEMA = "labeldp/certificate/1";
const PLACES = 448n; // binary places of fixed-point numbers
const ONE = 1n << PLACES;
const SLACK = 1n << 64n; // far more than all rounding below, in units of the last place
const PARTS = 1n << 40n;
const MOST_DIGITS = 100;
const MOST_RANGES = 262144; // more scattered rows are charged as one range that covers them
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

class Refused extends Error {}

const has = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

function demand(holds, expected) {
  if (!holds) throw new Refused(`expected ${expected}, found another`);
}

// ---------------------------------------------------------------------------------------------------- exact numbers

const ceilDiv = (a, b) => (a + b - 1n) / b; // of numbers that are not negative
const atLeast = (a, b) => a[0] * b[1] >= b[0] * a[1]; // of fractions with positive denominators
const larger = (a, b) => (atLeast(a, b) ? a : b);
const plus = (a, b) => [a[0] * b[1] + b[0] * a[1], a[1] * b[1]];
const bitLength = (a) => BigInt(a.toString(2).length);

function integer(text) { // canonical decimal digits
  demand(typeof text === "string" && text.length <= MOST_DIGITS && /^(0|-?[1-9][0-9]*)$/.test(text), "an integer in its one form");
  return BigInt(text);
}

function printed(number) { // the decimal that a double prints as, as a fraction
  const [digits, exponent = "0"] = String(number).split("e");
  const [whole, part = ""] = digits.split(".");
  const value = BigInt(whole + part), shift = BigInt(exponent) - BigInt(part.length);
  return shift >= 0n ? [value * 10n ** shift, 1n] : [value, 10n ** -shift];
}

const numeral = (spelled) => (/^-?[0-9]+$/.test(spelled) ? [BigInt(spelled), 1n] : printed(Number(spelled))); // exact if whole

function binary(number) { // the double itself, as a fraction
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(number));
  const word = view.getBigUint64(0);
  const power = word >> 52n;
  const mantissa = (word & ((1n << 52n) - 1n)) | (power ? 1n << 52n : 0n);
  const shift = (power || 1n) - 1075n;
  return shift >= 0n ? [mantissa << shift, 1n] : [mantissa, 1n << -shift];
}

function next(number) { // the next double above one that is not negative
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  view.setBigUint64(0, view.getBigUint64(0) + 1n);
  return view.getFloat64(0);
}

function doubleBelow([numerator, denominator]) { // a double at or a little below a fraction of at least 0
  if (numerator === 0n) return 0;
  const shift = 60n - bitLength(numerator) + bitLength(denominator);
  const scaled = shift >= 0n ? (numerator << shift) / denominator : numerator / (denominator << -shift);
  return Number(scaled >> 8n << 8n) * (1 - 2 ** -50) * 2 ** Number(-shift);
}

function printedAbove(value) { // the smallest double that prints as at least a fraction
  let number = doubleBelow(value);
  while (!atLeast(printed(number), value)) number = next(number);
  return number;
}

function floatAbove(value) { // the smallest double that is at least a fraction, also as it prints
  let number = printedAbove(value);
  while (!atLeast(binary(number), value)) number = next(number);
  return number;
}

function artanhSeries(numerator, denominator) { // 2 artanh(numerator / denominator) in fixed point, rounded down
  const square = (numerator * numerator * ONE) / (denominator * denominator);
  let power = (numerator * ONE) / denominator, sum = 0n;
  for (let n = 1n; power; n += 2n) { sum += power / n; power = (power * square) >> PLACES; }
  return 2n * sum;
}

const LOG_TWO = artanhSeries(1n, 3n);

function logAbove([numerator, denominator]) { // an upper bound on the natural logarithm of a fraction of at least 1
  demand(numerator >= denominator && denominator > 0n, "a largest ratio of at least one");
  if (numerator === denominator) return [0n, 1n];
  let twos = bitLength(numerator) - bitLength(denominator);
  let scaled = denominator << twos;
  if (scaled > numerator) { twos -= 1n; scaled = denominator << twos; } // numerator / scaled is in [1, 2)
  const part = artanhSeries(numerator - scaled, numerator + scaled);
  return [part + twos * LOG_TWO + SLACK, ONE];
}

function expAbove([numerator, denominator]) { // an upper bound on exp of a fraction of at least 0
  const halvings = 8n + bitLength(numerator / denominator);
  const x = (numerator * ONE) / (denominator << halvings) + 1n;
  let term = ONE, sum = ONE;
  for (let n = 1n; term; n += 1n) { term = (term * x) / (n << PLACES); sum += term; }
  sum += 256n;
  for (let n = 0n; n < halvings; n += 1n) sum = ((sum * sum) >> PLACES) + 1n;
  return [sum, ONE];
}

function shownAbove([numerator, denominator], digits) { // rounded up to significant digits, without an exponent
  if (numerator === 0n) return "0";
  let places = BigInt(digits) - BigInt((numerator / denominator).toString().length); // decimal places that are kept
  if (numerator < denominator) {
    places = BigInt(digits);
    while (numerator * 10n ** (places - BigInt(digits) + 1n) < denominator) places += 1n;
  }
  let value = places >= 0n ? ceilDiv(numerator * 10n ** places, denominator) : ceilDiv(numerator, denominator * 10n ** -places);
  if (places <= 0n) return (value * 10n ** -places).toString();
  const text = value.toString().padStart(Number(places) + 1, "0");
  const cut = text.length - Number(places);
  return `${text.slice(0, cut)}.${text.slice(cut)}`.replace(/\.?0+$/, "");
}

// ------------------------------------------------------------------------------------------------------- laws

function fields(law, ...names) {
  const expected = new Set(["kind", "bits", "classes", "by_row", ...names]);
  demand(Object.keys(law).length === expected.size && Object.keys(law).every((name) => expected.has(name)), "the fields of such a law");
  demand(law.bits === "64", "words of 64 bits");
}

const W = 1n << 64n;
const list = (value) => { demand(Array.isArray(value), "a list"); return value; };
const integers = (value) => list(value).map(integer);

function subsetOdds(k, d, member) {
  demand(d >= 1n && d < k && member > 0n && member < W, "a subset of some but not all classes");
  const odds = [member * (k - d), (W - member) * d];
  demand(atLeast(odds, [1n, 1n]), "a subset that favours the true class");
  return odds;
}

const ODDS = {
  response(law, k) {
    fields(law, "keep", "other");
    const [keep, other] = [integer(law.keep), integer(law.other)];
    demand(k >= 2n && keep >= other && other >= 1n && keep + (k - 1n) * other === W, "weights that use every word once");
    return [keep, other];
  },
  subset(law, k) {
    fields(law, "size", "member");
    return subsetOdds(k, integer(law.size), integer(law.member));
  },
  bits(law) {
    fields(law, "true", "false");
    const [p, q] = [integer(law.true), integer(law.false)];
    demand(q > 0n && q <= p && p < W, "0 < false <= true below the number of words");
    return [p * (W - q), (W - p) * q];
  },
  projective(law, k) {
    fields(law, "order", "member");
    const order = integer(law.order);
    demand(order >= 2n && order < 1n << 12n, "a prime order");
    for (let factor = 2n; factor * factor <= order; factor += 1n) demand(order % factor, "a prime order");
    let dimension = 2n;
    const points = (t) => (order ** t - 1n) / (order - 1n);
    while (points(dimension) < k) dimension += 1n;
    demand(points(dimension) < 1n << 31n, "at most 2147483647 points");
    return subsetOdds(points(dimension), points(dimension - 1n), integer(law.member));
  },
  candidates(law, k) {
    fields(law, "keep", "other");
    const [keep, other] = [integers(law.keep), integers(law.other)];
    demand(BigInt(keep.length) === k + 1n && BigInt(other.length) === k + 1n, "weights for each number of candidates");
    demand(keep[0] === W && other[0] === 1n, "the weights of no candidate in their one form");
    let worst = [1n, 1n];
    for (let m = 1n; m <= k; m += 1n) {
      const [a, b] = [keep[m], other[m]];
      demand(a >= b && b >= 1n && a + (m - 1n) * b === W, "weights that use every word once");
      if (m < 2n) continue;
      const even = ceilDiv(W, m), last = W - (m - 1n) * even;
      demand(last >= 1n, "a last candidate that is possible");
      for (const ratio of [[a, b], [a, last], [even, b]]) worst = larger(worst, ratio);
    }
    return worst;
  },
  "candidate-subset"(law, k) {
    fields(law, "size", "member");
    const [size, member] = [integers(law.size), integers(law.member)];
    demand(BigInt(size.length) === k + 1n && BigInt(member.length) === k + 1n, "sizes for each number of candidates");
    demand(size[0] === 1n && size[1] === 1n && member[0] === W && member[1] === W, "the only candidate in every subset");
    let worst = [1n, 1n];
    for (let m = 2n; m <= k; m += 1n) worst = larger(worst, subsetOdds(m, size[m], member[m]));
    for (let m = 2n; m <= k; m += 1n) {
      const [d, more] = [size[m], member[m] + 1n];
      demand(more === W || !atLeast(worst, [more * (m - d), (W - more) * d]), "each weight as large as the worst odds allow");
    }
    return worst;
  },
  coarsening(law, k) {
    fields(law, "keep", "other");
    const [keep, other] = [integers(law.keep), integers(law.other)];
    demand(BigInt(keep.length) === k + 1n && BigInt(other.length) === k + 1n, "weights for each number of groups");
    demand(keep[0] === W && keep[1] === W && other[0] === 1n && other[1] === 1n, "the weights of one group in their one form");
    let worst = [1n, 1n];
    for (let m = 2n; m <= k; m += 1n) {
      const [a, b] = [keep[m], other[m]];
      demand(a >= b && b >= 1n && a + (m - 1n) * b === W, "weights that use every word once");
      worst = larger(worst, [a, b]);
    }
    return worst;
  },
  cluster(law, k) {
    fields(law, "keep", "weights");
    const keep = integers(law.keep), weights = list(law.weights).map(integers);
    demand(keep.length === weights.length && keep.length >= 1, "a weight of the true class for each cluster");
    let worst = [1n, 1n];
    keep.forEach((a, i) => {
      const least = weights[i].reduce((x, y) => (y < x ? y : x));
      demand(BigInt(weights[i].length) === k && least >= 1n && a >= 1n, "weights of at least 1");
      demand(weights[i].reduce((x, y) => x + y, a) === W, "weights that use every word once");
      worst = larger(worst, [a + least, least]);
    });
    return worst;
  },
  matrix(law, k) {
    fields(law, "weights", "slack");
    const rows = list(law.weights).map(integers), slack = integer(law.slack);
    demand(k >= 2n && k <= 256n && BigInt(rows.length) === k && slack >= 0n, "weights for each of 2 to 256 true classes");
    for (const row of rows) {
      demand(BigInt(row.length) === k && row.every((w) => w > slack) && row.reduce((x, y) => x + y, 0n) === W, "weights above their slack that use every word once");
    }
    let worst = [1n, 1n];
    rows.forEach((_, z) => {
      const column = rows.map((row) => row[z]);
      worst = larger(worst, [column.reduce((x, y) => (y > x ? y : x)) + slack, column.reduce((x, y) => (y < x ? y : x)) - slack]);
    });
    return worst;
  },
  grid(law, k) {
    fields(law, "weights", "values");
    const rows = list(law.weights).map(integers), values = integers(law.values);
    demand(rows.length >= 2 && rows.length <= 257 && BigInt(rows.length) <= k && values.length >= 1 && values.length <= 1024, "knots and outcomes");
    for (const row of rows) {
      demand(row.length === values.length && row.every((w) => w >= 1n) && row.reduce((x, y) => x + y, 0n) === W, "weights that use every word once");
    }
    demand(values.every((value, i) => i === 0 || value > values[i - 1]), "numbers that increase");
    let worst = [1n, 1n];
    values.forEach((_, z) => {
      const column = rows.map((row) => row[z]);
      worst = larger(worst, [column.reduce((x, y) => (y > x ? y : x)), column.reduce((x, y) => (y < x ? y : x))]);
    });
    return worst;
  },
  bins(law, k) {
    fields(law, "starts", "keep", "other", "values");
    const starts = integers(law.starts), values = integers(law.values);
    const [keep, other, count] = [integer(law.keep), integer(law.other), BigInt(list(law.starts).length)];
    const rising = (all) => all.every((value, i) => i === 0 || value > all[i - 1]);
    demand(count >= 1n && count <= 1024n && values.length === starts.length && starts[0] === 0n && starts[starts.length - 1] < k, "bins from the first grid point");
    demand(rising(starts) && rising(values), "bins that increase");
    demand(keep + (count - 1n) * other === W && (count === 1n ? other === 0n : keep >= other && other >= 1n), "weights that use every word once");
    return count === 1n ? [1n, 1n] : [keep, other];
  },
};

const GROUPS = ["grouped", "grouped-numbers"];
const FORMS = { subset: "set", bits: "set", "candidate-subset": "set", projective: "index", grid: "number", bins: "number" };
const formOf = (law) => (has(FORMS, law.kind) ? FORMS[law.kind] : "class");
const BY_ROW = { candidates: ["candidates"], "candidate-subset": ["candidates"], coarsening: ["firsts"], cluster: ["clusters"], grouped: ["groups"], "grouped-numbers": ["groups"] };

// The kind of law that each mechanism of the package draws released labels from; others have mechanisms of their own.
const MECHANISMS = {
  "randomized-response": "response", double: "response", dummy: "response", subset: "subset", bits: "bits", projective: "projective",
  "top-k": "candidates", prior: "candidates", "prior-subset": "candidate-subset", groups: "coarsening", cluster: "cluster",
  bins: "bins", laplace: "grid", "one-bit": "grid", piecewise: "grid", minimax: "grid", optimal: "grid",
};
const WITH_FEATURES = ["double", "dummy"];

// The epsilon of released labels of one privacy unit: the logarithm of the largest ratio, m times it for m rows.
function epsilonOfChannel(law, size, isInterval) {
  const k = integer(law.classes);
  demand(k === size, "a law of as many classes as were declared");
  demand(JSON.stringify(law.by_row) === JSON.stringify(has(BY_ROW, law.kind) ? BY_ROW[law.kind] : []), "the columns by row of such a law");
  if (!GROUPS.includes(law.kind)) {
    demand(isInterval || formOf(law) !== "number", "a law of numbers for labels on an interval");
    return floatAbove(logAbove(ODDS[law.kind](law, k)));
  }
  exactly(law, ["kind", "bits", "classes", "by_row", "channels", "repeats"]);
  const channels = list(law.channels), repeats = integers(law.repeats);
  demand(law.bits === "64" && channels.length === repeats.length && channels.length >= 1, "the rows of a unit in each group");
  const form = formOf(channels[0]);
  demand((form === "number") === (law.kind === "grouped-numbers") && channels.every((channel) => formOf(channel) === form), "groups whose released labels have one form");
  demand(isInterval || form !== "number", "a law of numbers for labels on an interval");
  let worst = [0n, 1n];
  channels.forEach((channel, i) => {
    demand(has(ODDS, channel.kind) && JSON.stringify(channel.by_row) === "[]" && integer(channel.classes) === k && repeats[i] >= 1n, "a channel of single rows in each group");
    const [log, one] = logAbove(ODDS[channel.kind](channel, k));
    worst = larger(worst, [log * repeats[i], one]);
  });
  return floatAbove(worst);
}

// The epsilon of an answer with noise of a rational rate, and the sensitivity that its kind has.
const SENSITIVITY = {
  "noisy-histogram": () => 2n,
  "noisy-argmax": (law) => { demand(["permute-and-flip", "exponential"].includes(law.method), "a method of choice"); return 2n; },
  "noisy-quantile": (law, size) => {
    const around = law.around === undefined ? 0n : integer(law.around);
    demand(isShare(law.level) && around >= 0n && around < size, "a level, and distances from a grid point");
    return 2n;
  },
  "noisy-top-k": (law, size) => { const top = integer(law.top); demand(top >= 1n && top <= size, "a number of classes"); return (top < size ? top : size - 1n) + 1n; },
  "noisy-mean": (law, size) => {
    const clipped = has(law, "lowest") || has(law, "highest");
    const [low, high] = clipped ? [integer(law.lowest), integer(law.highest)] : [0n, size - 1n];
    demand(low >= 0n && low < high && high < size && clipped === (high - low < size - 1n), "labels clipped to a part of the interval");
    return high - low;
  },
};
const REQUIRED = { "noisy-argmax": ["method"], "noisy-top-k": ["top"], "noisy-quantile": ["level"] };
const OPTIONAL = { "noisy-mean": ["lowest", "highest"], "noisy-quantile": ["around"] };

function isShare(text) { // the one form of a float between 0 and 1, as Python writes it
  const number = Number(text), [digits, power] = number.toExponential().split("e-");
  if (!isText(text) || !(number >= 0 && number <= 1)) return false;
  if (Number.isInteger(number)) return text === `${number}.0`;
  return text === (number < 1e-4 ? `${digits}e-${power.padStart(2, "0")}` : `0.${"0".repeat(power - 1)}${digits.replace(".", "")}`);
}

const stopOf = (rows) => BigInt(rows.length ? rows[rows.length - 1][1] : 0);

function mayBe(rows, count) { // whether ranges are so many rows, or one that covers scattered ones
  const sum = rows.reduce((total, [start, stop]) => total + BigInt(stop - start), 0n);
  return sum === count || (rows.length === 1 && sum > count && count > MOST_RANGES);
}

function rowsOfCells(listed, rows) { // what the law of an answer says of the rows of its cells
  if (listed === undefined || listed === "all" || listed === "not listed") return true;
  const counts = integers(listed);
  return counts.length >= 1 && counts.length <= 65536 && counts.every((each) => each >= 0n) && mayBe(rows, counts.reduce((sum, each) => sum + each, 0n));
}

function epsilonOfAnswer(law, size, rows) {
  const [required, optional] = [REQUIRED, OPTIONAL].map((names) => (has(names, law.kind) ? names[law.kind] : []));
  exactly(law, ["kind", "rate", "parts", "sensitivity", "labels_of_a_unit", ...required], ["rows", ...optional]);
  const [rate, parts, sensitivity, labels] = [law.rate, law.parts, law.sensitivity, law.labels_of_a_unit].map(integer);
  demand(parts === PARTS && sensitivity === SENSITIVITY[law.kind](law, size) && rate >= 1n && labels >= 1n, "noise for the sensitivity of such an answer");
  demand(labels <= (stopOf(rows) || 1n), "units of at most as many labels as rows were charged");
  demand(rowsOfCells(law.rows, rows), "a charge for the rows of the law's cells");
  return printedAbove([rate * sensitivity * labels, parts]);
}

// Kinds that are left to labeldp, with who sees true labels.
const LEFT = { "label-moments": "central", "number-moments": "central", "noisy-gradients": "local", "peer-exchange": "peer", "shuffled-labels": "shuffle" };
const isOurs = (law) => [ODDS, SENSITIVITY, LEFT].some((kinds) => has(kinds, law.kind)) || GROUPS.includes(law.kind);
const isForeign = (law) => has(law, "package");
const isChannel = (law) => (isForeign(law) ? has(law, "by_row") : has(ODDS, law.kind) || GROUPS.includes(law.kind));
const isAnswer = (law) => !isChannel(law);

// Who defines a law that is left, or nobody if it is recomputed here. A word that is no kind at all is refused.
function leftTo(law) {
  const parts = GROUPS.includes(law.kind) ? [law, ...list(law.channels)] : [law];
  const foreign = parts.filter(isForeign);
  demand(foreign.every((part) => /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(part.package) && !isOurs(part)) && (foreign.includes(law) || isOurs(law)), "a kind of law that is defined");
  if (foreign.length) return `an output distribution of another package, ${foreign[0].package}`;
  return has(LEFT, law.kind) ? `the output distribution of ${law.kind}` : "";
}

const MOST_CLASSES = 1 << 24;

function sizeOf(space, spelled) { // the number of classes, or of grid points, from the numbers as they are spelled
  if (space.kind === "classes") {
    exactly(space, ["kind", "values", "missing"]);
    const kind = typeof list(space.values)[0];
    const key = { string: (each) => each, boolean: String, number: (each) => { demand(/^-?[0-9]+$/.test(each), "whole numbers"); return String(BigInt.asIntN(64, BigInt(each))); } }[kind];
    demand(key && space.values.every((value) => typeof value === kind), "classes of one type");
    const keys = new Set(spelled.values.map(key));
    demand(space.values.length >= 2 && space.values.length <= MOST_CLASSES && keys.size === space.values.length, "different classes");
    demand(kind !== "number" || spelled.values.every((each) => BigInt.asIntN(64, BigInt(each)) === BigInt(each)), "whole numbers of 64 bits");
    demand(kind !== "string" || !space.values.some((each) => /\p{Cs}/u.test(each)), "text in Unicode");
    demand(space.missing === "refuse" || (typeof space.missing === kind && keys.has(key(spelled.missing))), "a declared class for missing labels, or none");
    return BigInt(space.values.length);
  }
  demand(space.kind === "interval", "a declared label space");
  exactly(space, ["kind", "low", "high", "step", "missing"]);
  demand([space.low, space.high, space.step].every((each) => typeof each === "number"), "numbers of a range");
  demand(space.missing === "refuse" || typeof space.missing === "number", "a number for missing labels, or none");
  const [low, high, step] = [spelled.low, spelled.high, spelled.step].map(numeral);
  const [numerator, denominator] = plus(high, [-low[0], low[1]]);
  demand(step[0] > 0n && numerator > 0n && Number.isFinite(space.high - space.low), "a range in whole steps");
  const [steps, rest] = [numerator * step[1] / (denominator * step[0]), numerator * step[1] % (denominator * step[0])];
  demand(rest === 0n && steps >= 1n && steps < MOST_CLASSES, "a range in whole steps");
  demand(areFarApart(low, step, steps), "grid points that doubles can tell apart");
  return steps + 1n;
}

function areFarApart(low, step, steps) { // whether the doubles nearest to all grid points differ
  const common = low[1] > step[1] ? low[1] : step[1]; // both are powers of ten
  const [first, each] = [low[0] * (common / low[1]), step[0] * (common / step[1])];
  const last = first + each * steps, most = last > -first ? last : -first;
  if (each << 50n > most) return true;
  const places = String(common).length - 1;
  if ((places > 22 || most >= 1n << 53n) && steps > 1n << 20n) return false;
  for (let i = 0n, before = -Infinity; i <= steps; i += 1n) {
    const point = Number(`${first + each * i}e-${places}`);
    if (!(point > before)) return false;
    before = point;
  }
  return true;
}

// --------------------------------------------------------------------------------------------- the certificate

const UNKNOWN = [
  "that the labels were drawn honestly, with this law and with secure random words",
  "that the kept columns, the row order, the row set and the split into files do not give the label away",
  "that these labels were not released elsewhere or at another time: releases add up, as the ledger knows",
  "who made it: a certificate is no signature",
  "that the declared unit is the right one",
];
const UNKNOWN_OF_FEATURES = [
  "that features were redrawn as often as stated, and by a generator that is what its source says",
  "that true features are as near to the generator's as was declared",
];
const IN_STAGES = "which rows are of which stage does not depend on labels, but through answers and releases that are charged";
const WHO = {
  local: ["Each label was randomized alone", "whatever else someone knows"],
  central: ["A trusted curator answered from all labels together", "whatever else someone knows"],
  peer: ["Peers exchanged their labels before anything was released", "whatever else someone knows, but for who asked whom and what peers tell"],
  shuffle: ["Each label was randomized alone, and the labels of each public cell were shuffled", "whatever else someone knows, but for which row sent which label"],
};
const ADDS_UP = " This is what it adds to an earlier release, which its prior was computed from: in rows that they share, what both cost adds up.";

const ELSEWHERE = "declared"; // the mechanism of a law that no randomizer here has
const DECLARED = "these labels were randomized in this way before they were imported, as declared by ";

function visible(text) { // as Python's reader shows a name
  return text.replace(INVISIBLE, (letter) => {
    const code = letter.codePointAt(0), hex = code.toString(16);
    return code < 0x100 ? `\\x${hex.padStart(2, "0")}` : code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
}

function sentenceOf(guarantee, assumptions) {
  const labels = guarantee.unit === "row" ? "one row's label" : `all labels of one ${visible(guarantee.unit)}`;
  const larger_ = larger(printed(guarantee.epsilon), binary(guarantee.epsilon));
  const factor = guarantee.epsilon ? shownAbove(expAbove(larger_), 5) : "1";
  const [epsilon, delta] = [shownAbove(printed(guarantee.epsilon), 7), shownAbove(printed(guarantee.delta), 5)];
  const [who, known] = WHO[guarantee.trust];
  const by = (assumptions.find((each) => each.startsWith(DECLARED)) || "").slice(DECLARED.length);
  const declared = by ? `Declared by ${visible(by)}, not drawn here. ` : "";
  const adds = assumptions.some((each) => each.startsWith("the prior was computed from")) ? ADDS_UP : "";
  return `${declared}${who}: ${known}, replacing ${labels} changes the probability of anything in this release by a factor of at most ` +
    `${factor}${guarantee.delta ? `, plus ${delta}` : ""} (epsilon ${epsilon}, delta ${delta}); the kept columns are public and are not protected.${adds}`;
}

function composed(charges, unit) { // the largest exact sums of printed epsilons and deltas over rows
  const edges = [...new Set(charges.flatMap((charge) => charge.rows.flat()))].sort((a, b) => a - b);
  const everywhere = unit !== "row";
  const places = everywhere ? [0] : edges.slice(0, -1);
  let best = { epsilon: [0n, 1n], delta: [0n, 1n] };
  for (const place of places) {
    const here = charges.filter((charge) => everywhere || charge.rows.some(([start, stop]) => start <= place && place < stop));
    const sums = { epsilon: [0n, 1n], delta: [0n, 1n] };
    for (const charge of here) for (const name of ["epsilon", "delta"]) sums[name] = plus(sums[name], printed(charge.guarantee[name]));
    best = { epsilon: larger(best.epsilon, sums.epsilon), delta: larger(best.delta, sums.delta) };
  }
  return [printedAbove(best.epsilon), printedAbove(best.delta)];
}

const MOST_DEPTH = 16;

function isStrict(text, body) { // as many colons outside of strings as there are keys, little depth, finite numbers
  const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
  let keys = 0;
  const level = [[body, 0]];
  while (level.length) {
    const [part, depth] = level.pop();
    if (typeof part === "number" && !Number.isFinite(part)) return false;
    if (part === null || typeof part !== "object") continue;
    if (depth >= MOST_DEPTH) return false;
    if (!Array.isArray(part)) keys += Object.keys(part).length;
    for (const inner of Object.values(part)) level.push([inner, depth + 1]);
  }
  return keys === colons;
}

// The same document with each number as it is spelled: JSON of a browser takes 80.0 for 80, and a count is not a float.
const NUMBERS = /"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/g;
const spellings = (text) => JSON.parse(text.replace(NUMBERS, (token) => {
  demand(token !== "-0", "zero without a sign");
  return token[0] === '"' ? token : `"${token}"`;
}));
const areCounts = (...spelled) => spelled.every((each) => /^(0|[1-9][0-9]*)$/.test(each));
const areFloats = (...spelled) => spelled.every((each) => /^-?[0-9]+(?=[.eE])/.test(each));

function demandSpelling({ table, charges, guarantee }) { // counts without a point, floats with one, as the package writes them
  demand(areCounts(table.rows, ...table.files.map((file) => file.rows), ...charges.flatMap((charge) => charge.rows.flat())), "numbers of rows as whole numbers");
  demand(areFloats(guarantee.epsilon, guarantee.delta), "the whole epsilon and delta with a decimal point");
}

function exactly(part, names, perhaps = []) {
  const isObject = part !== null && typeof part === "object" && !Array.isArray(part);
  demand(isObject && names.every((name) => has(part, name)) && Object.keys(part).every((name) => names.includes(name) || perhaps.includes(name)), "exactly the parts of a certificate");
}
const isNumber = (value) => typeof value === "number" && Number.isFinite(value) && value >= 0 && !Object.is(value, -0);
const isText = (value) => typeof value === "string";
const isDigest = (value, letters = 64) => isText(value) && value.length === letters && /^[0-9a-f]*$/.test(value);
const isCount = (value) => isNumber(value) && Number.isSafeInteger(value);

function readable(text) {
  const body = JSON.parse(text);
  demand(body !== null && typeof body === "object" && body.schema === SCHEMA, `a certificate of schema ${SCHEMA}`);
  demand(isStrict(text, body), "each key once, finite numbers and little depth");
  exactly(body, ["schema", "release", "made_with", "private", "label", "table", "charges", "guarantee", "expects", "assumptions", "cannot_know", "parent"], ["features"]);
  exactly(body.label, ["column", "space"]);
  exactly(body.table, ["rows", "columns", "files"]);
  demand(isDigest(body.release, 32) && isText(body.label.column), "a release of 32 hexadecimal digits, of a named label");
  exactly(body.made_with, [], Object.keys(body.made_with ?? {}));
  demand(Object.values(body.made_with).every(isText), "names of software with their versions");
  demand(isCount(body.table.rows), "a table of rows");
  for (const column of list(body.table.columns)) { exactly(column, ["name", "type"]); demand(isText(column.name) && isText(column.type), "columns with types"); }
  for (const file of list(body.table.files)) { exactly(file, ["name", "rows", "sha256"]); demand(isText(file.name) && isCount(file.rows) && isDigest(file.sha256), "files with their digests"); }
  demand(new Set(body.table.files.map((file) => file.name)).size === body.table.files.length, "files that are listed once");
  demand(body.parent === null || isDigest(body.parent), "a parent, or null");
  demand(body.features === undefined || (body.features !== null && typeof body.features === "object"), "a law of features, or none");
  demand(list(body.assumptions).every(isText), "assumptions in words");
  demand(list(body.charges).length >= 1 && body.charges.length <= 4096, "1 to 4096 charges");
  for (const part of [...body.charges, body]) {
    const { guarantee } = part;
    exactly(guarantee, ["epsilon", "delta", "trust", "unit", "features", "assumptions", ...(part === body ? ["sentence"] : [])], ["rho"]);
    demand(isNumber(guarantee.epsilon) && isNumber(guarantee.delta) && guarantee.delta < 1 && (!has(guarantee, "rho") || isNumber(guarantee.rho)), "numbers of a guarantee");
    demand(has(WHO, guarantee.trust) && guarantee.features === "static" && isText(guarantee.unit), "a guarantee of a known kind");
    demand(list(guarantee.assumptions).every(isText), "assumptions in words");
  }
  for (const charge of body.charges) {
    exactly(charge, ["mechanism", "law", "rows", "guarantee"]);
    demand(charge.law !== null && typeof charge.law === "object" && isText(charge.law.kind), "a law of some kind");
    demand(list(charge.rows).every((pair) => list(pair).length === 2 && pair.every(isCount) && pair[0] < pair[1]), "ranges of rows");
    demand(charge.rows.every((pair, i) => i === 0 || pair[0] >= charge.rows[i - 1][1]), "disjoint ranges of rows in order");
    demand(charge.rows.length >= 1 || body.table.rows === 0, "every charge for some rows");
    demand(isText(charge.mechanism), "a mechanism with a name");
  }
  demandExpectation(body.expects);
  const spelled = spellings(text);
  demandSpelling(spelled);
  return [body, spelled];
}

function demandExpectation(expects) { // its numbers are left to labeldp
  if (expects === null) return;
  exactly(expects, ["clean_share", has(expects, "squared_error") ? "squared_error" : "truth_probability"]);
  demand(Object.values(expects).every((each) => typeof each === "number"), "numbers of utility");
}

const CHECKS = [
  ["the certificate states that no test source of randomness was used", (body) => demand(body.private === true, "a private release")],
  ["no column has the name of the label", (body) => {
    const own = oneSpelling(body.label.column);
    demand(body.table.columns.every((column) => oneSpelling(column.name) !== own), "no column of that name in any spelling");
  }],
  ["each epsilon follows from the integers of its mechanism", (body, left, spelled) => {
    const size = sizeOf(body.label.space, spelled.label.space), isInterval = body.label.space.kind === "interval";
    for (const { law, guarantee, mechanism, rows } of body.charges) {
      const channel = isChannel(law), other = leftTo(law);
      if (channel) demandLabels(law, guarantee, mechanism, body, left);
      else demand(mechanism === law.kind, "a mechanism of the name of its law");
      if (other) left.push(other);
      if (channel || isOurs(law)) demand(guarantee.trust === (channel ? "local" : has(LEFT, law.kind) ? LEFT[law.kind] : "central"), "who sees true labels");
      if (other) continue;
      const epsilon = channel ? epsilonOfChannel(law, size, isInterval) : epsilonOfAnswer(law, size, rows);
      demand(guarantee.epsilon === epsilon && guarantee.delta === 0, `epsilon ${epsilon} and delta 0`);
      const rho = law.kind === "noisy-histogram" ? rhoOfHalves(epsilon) : undefined;
      demand(!has(guarantee, "rho") || guarantee.rho === rho, rho === undefined ? "no rho" : `rho ${rho}, or none`);
    }
  }],
  ["the guarantee is the composition of its charges", (body) => {
    const first = body.charges[0].guarantee, { guarantee, charges } = body;
    demand(charges.every((charge) => charge.guarantee.unit === first.unit), "one privacy unit");
    const [epsilon, delta] = composed(charges, first.unit);
    demand(guarantee.epsilon === epsilon && guarantee.delta === delta, `epsilon ${epsilon} and delta ${delta}`);
    demand(guarantee.unit === first.unit && guarantee.trust === first.trust, "the unit and the trust of its charges");
    demand(charges.every(({ law, guarantee: each }) => isChannel(law) || each.trust === first.trust), "the trust of its answers");
    demand(JSON.stringify(guarantee.assumptions) === JSON.stringify(first.assumptions) && first.assumptions.every((each) => body.assumptions.includes(each)), "its assumptions among the declared ones");
    demand(charges.length > 1 ? guarantee.rho === undefined : guarantee.rho === first.rho, "the rho of its charge");
  }],
  ["every row is charged", (body) => {
    const channels = body.charges.filter(({ law }) => !isAnswer(law)), answers = body.charges.filter(({ law }) => isAnswer(law));
    demand(body.charges.slice(0, answers.length).every(({ law }) => isAnswer(law)), "answers before released labels");
    const { rows } = body.table;
    demand((body.expects === null) === (channels.length === 0), "the utility of released labels, and of no answer");
    demand(channels.length > 0 || (answers.length === 1 && body.parent === null && rows > 0), "a complete answer about some rows, with one charge");
    if (channels.length > 1) { // stages, which are all rows, each once
      const same = ({ law, guarantee }) => canonical([law, guarantee]) === canonical([channels[0].law, channels[0].guarantee]);
      demand(channels.every(same) && body.assumptions.includes(IN_STAGES), "one law in all stages, which do not depend on labels");
      let stop = 0;
      for (const range of channels.flatMap((charge) => charge.rows).sort((a, b) => a[0] - b[0])) {
        demand(range[0] === stop, "each row in one stage");
        stop = range[1];
      }
      demand(body.parent !== null || stop === rows, `stages of ${rows} rows`);
    } else if (body.parent === null) {
      demand(mayBe(body.charges[body.charges.length - 1].rows, BigInt(rows)), `a charge for ${rows} rows`);
    }
  }],
  ["its sentence says what its numbers say", (body, left) => {
    if (body.features !== undefined) { left.push("the guarantees of resampled features"); return; }
    const sentence = sentenceOf(body.guarantee, body.assumptions);
    demand(body.guarantee.sentence === sentence, `“${sentence}”`);
  }],
  ["it says what it cannot show", (body) => {
    const unknown = body.features === undefined ? UNKNOWN : [...UNKNOWN, ...UNKNOWN_OF_FEATURES];
    demand(JSON.stringify(body.cannot_know) === JSON.stringify(unknown), "all that no certificate can show");
  }],
];

// What the charge of released labels says beside its numbers. A mechanism of another package is left to labeldp.
function demandLabels(law, guarantee, mechanism, body, left) {
  const parts = GROUPS.includes(law.kind) ? list(law.channels) : [law];
  const declared = mechanism === ELSEWHERE;
  demand(!declared || body.assumptions.some((each) => each.startsWith(DECLARED)), "somebody who declares the law");
  const ofRows = declared && GROUPS.includes(law.kind) && integers(law.repeats).every((each) => each === 1n);
  demand(ofRows && guarantee.unit === "row" || (guarantee.unit !== "row") === GROUPS.includes(law.kind), "a law for the privacy unit");
  demand(WITH_FEATURES.includes(mechanism) === (body.features !== undefined), "the law of features of such a mechanism");
  if (declared) return;
  if (has(MECHANISMS, mechanism)) demand(parts.every((part) => part.kind === MECHANISMS[mechanism]), `a mechanism that draws from ${parts[0].kind}`);
  else {
    demand(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(mechanism), "the name of a mechanism");
    if (!parts.some(isForeign)) left.push("a mechanism of another package");
  }
}

// A name without capitals, format characters, kinds of letters, digits and dashes, and blanks at its ends or doubled ones.
function oneSpelling(name) {
  const plain = name.normalize("NFKC").toUpperCase().toLowerCase().replace(/ς/g, "σ").normalize("NFKC");
  return plain.replace(/\p{Cf}/gu, "").replace(/\p{Pd}/gu, "-").replace(/[\s\x1c-\x1f\x85]+/g, " ").trim();
}

const rhoOfHalves = (epsilon) => { const [a, b] = printed(epsilon); return floatAbove([a * a, 4n * b * b]); };
const canonical = (value) => JSON.stringify(value, (_, part) => (part !== null && typeof part === "object" && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort()) : part));

// What a verifier finds: holds is true if all of the guarantee was recomputed, false if something is wrong, and null if
// all that was recomputed holds, but a law is left.
function verifyCertificate(text) {
  const first = "the certificate can be read";
  const checks = [], laws = [];
  const left = () => ["the files themselves", "the expected utility", ...laws];
  let body, spelled;
  try {
    [body, spelled] = readable(text);
    checks.push([first, true, ""]);
    for (const [what, check] of CHECKS) {
      checks.push([what, false, ""]);
      check(body, laws, spelled);
      checks[checks.length - 1][1] = true;
    }
  } catch (problem) {
    if (!checks.length) checks.push([first, false, ""]);
    checks[checks.length - 1][2] = problem instanceof Refused ? problem.message : "expected a certificate, found something else";
    return { holds: false, epsilon: null, delta: null, checks, left: left() };
  }
  return { holds: laws.length ? null : true, epsilon: body.guarantee.epsilon, delta: body.guarantee.delta, checks, left: left() };
}
