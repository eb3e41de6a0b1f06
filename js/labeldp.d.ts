/** The integers of an output distribution, as certificates and declarations have them. */
export interface Law {
  readonly kind: "response" | "subset" | "bits" | "coarsening";
  readonly bits: "64";
  readonly classes: string;
  readonly by_row: readonly string[];
  readonly [integer: string]: string | readonly string[];
}

type Value = string | number | boolean;

/** How answers are randomized, as `labeldp declare` writes it. */
export interface Declaration {
  readonly schema: "labeldp/declaration/1";
  readonly name: string;
  readonly label: string;
  readonly values: readonly Value[];
  readonly mechanism: string;
  readonly epsilon: number;
  readonly law: Law;
  readonly declared_by: string;
  readonly meaning: string;
  /** The most answers of a person; 1 without it. `epsilon` is that of each. */
  readonly answers?: number;
  /** For groups: the values in groups of adjacent ones, of which one leaves. */
  readonly groups?: readonly (readonly Value[])[];
}

/** What leaves the device: a value, or a list of values for mechanisms that release sets. */
export type Report = Value | Value[];

/** A declaration as an object, from its text or from the object itself. Throws if it is none. */
export function read(declaration: string | Declaration): Declaration;

/** The report for a true answer, drawn anew at each call. */
export function randomize(declaration: string | Declaration, answer: Value): Report;

/** The report for a true answer, drawn once and kept: asked again, the device gives the same report. */
export function permanent(
  declaration: string | Declaration,
  answer: Value,
  storage?: Pick<Storage, "getItem" | "setItem">,
  question?: number,
): Report;

/** What a device sends to a collection: its report, the token by which a second one is known, and public columns. */
export interface Submission {
  readonly declaration: string;
  readonly token: string;
  readonly report: Report;
  readonly public: Readonly<Record<string, Value>>;
}

/** The submission for a true answer, made once and kept with its report. */
export function submission(
  declaration: string | Declaration,
  answer: Value,
  columns?: Readonly<Record<string, Value>>,
  storage?: Pick<Storage, "getItem" | "setItem">,
): Submission;

/** Send a submission to the address of a collection; rejects if it is refused, or does not arrive in some tries. */
export function send(address: string, submitted: Submission, tries?: number): Promise<void>;

/** The number of random words that a row takes. */
export function wordsPerRow(law: Law): number;

/** Uniform words of 64 bits from a cryptographic source. */
export function secureWords(count: number): bigint[];

/**
 * The released class, or a bit for each class, for the true class `y` and random words; bit for bit as in Python. For
 * groups, with the number of the group of each class, from 0.
 */
export function draw(law: Law, y: number, words: readonly bigint[], groups?: readonly number[]): number | number[];
