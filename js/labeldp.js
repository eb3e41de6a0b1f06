"use strict";
// Randomizes one label where it is, in the browser or on the phone of the person whom it is of: for a release without
// anybody who sees true labels. Bit for bit what labeldp draws from the same words, for randomized response, subsets of a
// fixed size and independent bits; written from docs/certificate-format.md. The law is that of a certificate.
//
//     const law = { kind: "response", bits: "64", classes: "2", keep: "13485904672957497939", other: "4960839400752053677", by_row: [] };
//     const released = draw(law, 1, secureWords(wordsPerRow(law)));    // what leaves: 0 or 1, at epsilon 1
//
// Words must be used once, and kept from everybody: whoever knows them knows the label.

const LOW_HALF = (1n << 32n) - 1n;

// Uniform words from the browser's cryptographic random source.
const secureWords = (count) => Array.from(crypto.getRandomValues(new BigUint64Array(count)));

// The number of words of a row; of subsets with spare ones, which run out with a probability below 2^-128.
const WORDS = {
  response: () => 1,
  bits: (law) => Number(law.classes),
  subset(law) {
    const [classes, size] = [Number(law.classes), Number(law.size)];
    const doubt = 32 - Math.log2(size * classes + 1);
    const spare = doubt > 1 ? Math.ceil(128 / doubt) : 128 + size;
    return 1 + Math.ceil((size + spare) / 2);
  },
};
const wordsPerRow = (law) => WORDS[law.kind](law);

// The halves of words, the low one first.
function* halvesOf(words) {
  for (const word of words) { yield word & LOW_HALF; yield word >> 32n; }
}

// A uniform number below a bound: a half times the bound, rejected where that would not be uniform.
function below(bound, halves) {
  for (;;) {
    const { value, done } = halves.next();
    if (done) throw new Error("a row ran out of words; draw again with others");
    const product = value * bound;
    if ((product & LOW_HALF) >= (1n << 32n) % bound) return Number(product >> 32n);
  }
}

// What is released for the true class y: a class, or a bit for each class.
const DRAWS = {
  response(law, y, [word]) {
    const [keep, other] = [BigInt(law.keep), BigInt(law.other)];
    if (word < keep) return y;
    const place = Number((word - keep) / other);
    return place + (place >= y);
  },
  bits(law, y, words) {
    const limits = [BigInt(law.false), BigInt(law.true)];
    return words.map((word, j) => Number(word < limits[Number(j === y)]));
  },
  subset(law, y, [first, ...rest]) {
    const [classes, size] = [Number(law.classes), Number(law.size)];
    const released = new Array(classes).fill(0);
    const inside = first < BigInt(law.member);
    const halves = halvesOf(rest);
    for (let j = classes - 1 - (size - inside); j < classes - 1; j += 1) { // Floyd: a uniform subset of the other classes
      let pick = below(BigInt(j + 1), halves);
      pick += pick >= y;
      released[released[pick] ? j + (j >= y) : pick] = 1;
    }
    if (inside) released[y] = 1;
    return released;
  },
};

// Whether the integers of a law are those of a distribution that hides the label.
const ALL = 1n << 64n;
const HOLDS = {
  response: (law, k) => BigInt(law.other) > 0n && BigInt(law.keep) + BigInt(law.other) * (k - 1n) === ALL,
  bits: (law) => BigInt(law.false) > 0n && BigInt(law.true) < ALL && BigInt(law.false) < BigInt(law.true),
  subset: (law, k) => BigInt(law.member) > 0n && BigInt(law.member) < ALL && BigInt(law.size) > 0n && BigInt(law.size) < k,
};

// The class must be a number: a text such as "1", as a form gives it, would leave as it is where it is kept.
function draw(law, y, words) {
  if (!(law.kind in HOLDS) || law.bits !== "64" || law.by_row.length || !HOLDS[law.kind](law, BigInt(law.classes)))
    throw new Error("expected the law of randomized response, subsets or bits that is the same for all rows");
  if (!Number.isInteger(y) || y < 0 || y >= Number(law.classes))
    throw new Error("expected a class as a whole number that counts from 0");
  return DRAWS[law.kind](law, y, words);
}
