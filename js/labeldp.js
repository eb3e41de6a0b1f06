// Randomizes an answer on the device of the person who gives it, so that nobody else ever has the true one. Bit for bit
// what labeldp draws from the same random words, for randomized response, subsets of a fixed size, independent bits and
// groups of adjacent classes; written from docs/certificate-format.md. README.md shows how to use it.

const LOW_HALF = (1n << 32n) - 1n;

// The most words that a cryptographic source gives at once.
const AT_ONCE = 8192;

// Uniform words of 64 bits from the cryptographic random source of the browser or of Node. Each word must be used once, and
// kept from everybody: whoever knows the words knows the answer.
export function secureWords(count) {
  const words = [];
  while (words.length < count)
    words.push(...crypto.getRandomValues(new BigUint64Array(Math.min(AT_ONCE, count - words.length))));
  return words;
}

// The number of subsets of so many elements of others, as a big integer.
function subsets(elements, size) {
  let count = size < 0 || size > elements ? 0n : 1n;
  for (let j = 0; j < size && count; j += 1) count = (count * BigInt(elements - j)) / BigInt(j + 1);
  return count;
}

// True for subsets that are so few that one word picks from a list of them.
const LARGEST_LISTS = 1n << 20n;
const isListed = (k, size) => subsets(k, size) * BigInt(k) * BigInt(Math.ceil(k / 8)) <= LARGEST_LISTS;

// A word, and halves of words for picks, with spare ones for rejections, which run out with a probability below 2^-128.
function wordsForPicks(picks, bound) {
  const doubt = 32 - Math.log2(picks * bound + 1);
  const spare = doubt > 1 ? Math.ceil(128 / doubt) : 128 + picks;
  return 1 + Math.ceil((picks + spare) / 2);
}

// The number of words of a row.
const WORDS = {
  response: () => 1,
  coarsening: () => 1,
  bits: (law) => 2 * Math.ceil(Number(law.classes) / 2),
  subset(law) {
    const [k, size] = [Number(law.classes), Number(law.size)];
    return isListed(k, size) ? wordsForPicks(1, Number(subsets(k, size))) : wordsForPicks(size, k);
  },
};
export const wordsPerRow = (law) => WORDS[law.kind](law);

// The halves of words, the low one first.
function* halvesOf(words) {
  for (const word of words) { yield word & LOW_HALF; yield word >> 32n; }
}

// A uniform number below a bound: a half times the bound, rejected where that would not be uniform.
function below(bound, halves) {
  for (;;) {
    const { value, done } = halves.next();
    if (done) throw new RangeError("a row ran out of words; draw again with others");
    const product = value * bound;
    if ((product & LOW_HALF) >= (1n << 32n) % bound) return Number(product >> 32n);
  }
}

// The law of randomized response on groups, which are given by the number of the group of each class.
const numberOf = (groups) => groups[groups.length - 1] + 1;
const ofGroups = (law, groups) => ({ keep: law.keep[numberOf(groups)], other: law.other[numberOf(groups)] });

// True if these are the numbers of groups of adjacent classes, for each of k classes, and there are two at least.
const areGroups = (groups, k) => Array.isArray(groups) && groups.length === k && groups[0] === 0 && groups[k - 1] > 0
  && groups.every((group, j) => j === 0 || group === groups[j - 1] || group === groups[j - 1] + 1);

// What is released for the true class y: a class, or a bit for each class.
const DRAWS = {
  response(law, y, [word]) {
    const [keep, other] = [BigInt(law.keep), BigInt(law.other)];
    if (word < keep) return y;
    const place = Number((word - keep) / other);
    return place + (place >= y);
  },
  coarsening(law, y, words, groups) {
    const drawn = DRAWS.response(ofGroups(law, groups), groups[y], words);
    return groups.map((group) => Number(group === drawn));
  },
  bits(law, y, words) {
    const limits = [BigInt(law.false), BigInt(law.true)], halves = [...halvesOf(words)];
    return Array.from({ length: Number(law.classes) }, (_, j) => {
      const number = (halves[j] << 32n) | halves[words.length + j];
      return Number(number < limits[Number(j === y)]);
    });
  },
  subset(law, y, [first, ...rest]) {
    const [classes, size, member] = [Number(law.classes), Number(law.size), BigInt(law.member)];
    const released = new Array(classes).fill(0);
    const inside = first < member;
    const halves = halvesOf(rest);
    if (isListed(classes, size)) { // the number of a set among those of the other classes, in the order of their bits
      const picks = size - inside, count = subsets(classes - 1, picks);
      const [place, each] = inside ? [first, member / count] : [first - member, (ALL - member) / count];
      let number = each && place / each < count ? place / each : BigInt(below(count, halves));
      for (let left = picks; left > 0; left -= 1) {
        let j = left - 1;
        while (subsets(j + 1, left) <= number) j += 1;
        number -= subsets(j, left);
        released[j + (j >= y)] = 1;
      }
      released[y] = Number(inside);
      return released;
    }
    for (let j = classes - 1 - (size - inside); j < classes - 1; j += 1) { // Floyd: a uniform subset of the other classes
      let pick = below(BigInt(j + 1), halves);
      pick += pick >= y;
      released[released[pick] ? j + (j >= y) : pick] = 1;
    }
    if (inside) released[y] = 1;
    return released;
  },
};

// True if the integers of a law are those of a distribution that hides the label.
const ALL = 1n << 64n;
const HOLDS = {
  response: (law, k) => BigInt(law.other) > 0n && BigInt(law.keep) + BigInt(law.other) * (k - 1n) === ALL,
  bits: (law) => BigInt(law.false) > 0n && BigInt(law.true) < ALL && BigInt(law.false) < BigInt(law.true),
  subset: (law, k) => BigInt(law.member) > 0n && BigInt(law.member) < ALL && BigInt(law.size) > 0n && BigInt(law.size) < k,
  coarsening: (law, k, groups) => areGroups(groups, Number(k)) && HOLDS.response(ofGroups(law, groups), BigInt(numberOf(groups))),
};
const BY_ROW = { coarsening: "firsts" }; // where groups begin, which are the same for all rows here

// The class must be a number: a text such as "1", as a form gives it, would leave as it is where it is kept.
export function draw(law, y, words, groups) {
  const same = law.kind in HOLDS && law.bits === "64" && law.by_row.join() === (BY_ROW[law.kind] ?? "");
  if (!same || !HOLDS[law.kind](law, BigInt(law.classes), groups))
    throw new Error("expected the law of randomized response, subsets, bits or groups that is the same for all rows");
  if (!Number.isInteger(y) || y < 0 || y >= Number(law.classes))
    throw new Error("expected a class as a whole number that counts from 0");
  return DRAWS[law.kind](law, y, words, groups);
}

// The exact largest ratio of a report's probabilities for two answers, as a numerator and a denominator.
const ODDS = {
  response: (law) => [BigInt(law.keep), BigInt(law.other)],
  bits: (law) => [BigInt(law.true) * (ALL - BigInt(law.false)), BigInt(law.false) * (ALL - BigInt(law.true))],
  subset(law, k) {
    const [member, size] = [BigInt(law.member), BigInt(law.size)];
    return [member * (k - size), (ALL - member) * size];
  },
  coarsening: (law, k, groups) => ODDS.response(ofGroups(law, groups)),
};

// The roundings of the logarithm of a ratio.
const ROUNDING = 1e-12;

const SCHEMA = "labeldp/declaration/1";
const TEXTS = ["name", "label", "mechanism", "declared_by", "meaning"];

// True for a declaration with groups of all values, in declared order.
const isGrouped = ({ values, groups }) => Array.isArray(groups) && groups.every(Array.isArray)
  && groups.flat().length === values.length && groups.flat().every((value, j) => value === values[j])
  && areGroups(groupsOf({ groups }), values.length);

// The number of the group of each value; undefined where the mechanism has no groups.
const groupsOf = (body) => body.groups?.flatMap((group, i) => group.map(() => i));

const MEANING = /^(Your answer is|Each answer is) changed at random before it leaves this device\. Whoever was 50 % sure of (it|all your answers) can become at most (\d{1,3})(?:\.(\d{1,6}))? % sure by what is sent\.$/;
const MOST_ANSWERS = 1000;

// True if the sentence for the person is that of so many answers, and its percentage is not below what the odds allow.
function isMeant(sentence, [most, least], answers) {
  const [, each, subject, whole, part = ""] = MEANING.exec(sentence) ?? [];
  const several = answers > 1, odds = [most, least].map((weight) => weight ** BigInt(answers));
  if ((each === "Each answer is") !== several || (subject === "all your answers") !== several) return false;
  return whole !== undefined && BigInt(whole + part) * (odds[0] + odds[1]) >= 10n ** BigInt(2 + part.length) * odds[0];
}

// A declaration as an object, from its text or from the object itself.
export function read(declaration) {
  const body = typeof declaration === "string" ? JSON.parse(declaration) : declaration;
  if (body?.schema !== SCHEMA || !TEXTS.every((name) => typeof body[name] === "string") || !Array.isArray(body.values))
    throw new Error(`expected a declaration of schema ${SCHEMA}, as 'labeldp declare' writes it`);
  const { law, values } = body;
  if (typeof law !== "object" || !(law?.kind in HOLDS) || Number(law.classes) !== values.length || new Set(values).size !== values.length)
    throw new Error("expected a declaration of randomized response, subsets, bits or groups, with a law of its values");
  if (law.kind === "coarsening" ? !isGrouped(body) : body.groups !== undefined)
    throw new Error("expected two or more groups of all values in declared order, and none without a law of groups");
  const odds = ODDS[law.kind](law, BigInt(values.length), groupsOf(body)).sort((one, other) => (one > other ? -1 : 1));
  if (!(Math.log(Number(odds[0]) / Number(odds[1])) <= body.epsilon * (1 + ROUNDING)))
    throw new Error(`expected a law of epsilon ${body.epsilon} at most, as declared, found one that discloses more`);
  if (body.answers !== undefined && !(Number.isInteger(body.answers) && body.answers > 1 && body.answers <= MOST_ANSWERS))
    throw new Error(`expected a number of answers from 2 to ${MOST_ANSWERS}, or none`);
  if (!isMeant(body.meaning, odds, body.answers ?? 1))
    throw new Error("expected the sentence that follows from the law as the meaning, found one that says something else or promises more");
  return body;
}

// The report for a true answer: one of the declared values, or a list of them for mechanisms that release sets. It is drawn
// anew at each call, and each report costs the declared epsilon: use `permanent` where a person may be asked again.
export function randomize(declaration, answer) {
  const body = read(declaration), { law, values } = body;
  const y = values.indexOf(answer);
  if (y < 0) throw new Error("expected one of the declared values as the answer");
  const released = draw(law, y, secureWords(wordsPerRow(law)), groupsOf(body));
  return Array.isArray(released) ? values.filter((_, j) => released[j]) : values[released];
}

// The report for a true answer, drawn once: asked again, this device gives the same report, whatever the answer is then. The
// report alone is stored, never the answer. `storage` has getItem and setItem, as localStorage does. Where a person gives
// several answers, `question` is the number of this one, from 0.
export function permanent(declaration, answer, storage = globalThis.localStorage, question = 0) {
  const body = read(declaration), key = `labeldp ${body.name}${question ? ` ${question}` : ""}`;
  if (!Number.isInteger(question) || question < 0 || question >= (body.answers ?? 1)) throw new Error("expected the number of a declared question, from 0");
  const kept = storage.getItem(key);
  if (kept !== null) return JSON.parse(kept);
  const report = randomize(body, answer);
  storage.setItem(key, JSON.stringify(report));
  if (storage.getItem(key) === null) throw new Error("this device does not keep the report, so it could not give the same one again");
  return report;
}

// What a device sends to a collection ('labeldp collect'): its permanent report, a random token by which a second report is
// known, and public columns. It is kept as a whole, so that a page that is opened again sends the very same.
export function submission(declaration, answer, columns = {}, storage = globalThis.localStorage) {
  const body = read(declaration), key = `labeldp ${body.name} submission`;
  const kept = storage.getItem(key);
  if (kept !== null) return JSON.parse(kept);
  const token = secureWords(2).map((word) => word.toString(16).padStart(16, "0")).join("");
  const sent = { declaration: body.name, token, report: permanent(body, answer, storage), public: columns };
  storage.setItem(key, JSON.stringify(sent));
  return sent;
}

// Send a submission to a collection, as often as it takes: the same one is counted once. Throws if it is refused.
export async function send(address, submitted, tries = 5) {
  for (let left = tries; ; left -= 1) {
    const response = await fetch(address, { method: "POST", body: JSON.stringify(submitted), credentials: "omit", referrerPolicy: "no-referrer" }).catch(() => null);
    if (response?.ok) return;
    if (left <= 1 || (response && response.status < 429)) throw new Error(`the report was not taken (${response?.status ?? "no connection"})`);
    await new Promise((later) => setTimeout(later, 1000 * (tries - left + 1)));
  }
}
