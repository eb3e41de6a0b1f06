/** The integers of an output distribution, as certificates and declarations have them. */
export interface Law {
  readonly kind: "response" | "subset" | "bits";
  readonly bits: "64";
  readonly classes: string;
  readonly by_row: readonly string[];
  readonly [integer: string]: string | readonly string[];
}

/** How answers are randomized, as `labeldp declare` writes it. */
export interface Declaration {
  readonly schema: "labeldp/declaration/1";
  readonly name: string;
  readonly label: string;
  readonly values: readonly (string | number | boolean)[];
  readonly mechanism: string;
  readonly epsilon: number;
  readonly law: Law;
  readonly declared_by: string;
  readonly meaning: string;
}

type Value = string | number | boolean;

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
): Report;

/** The number of random words that a row takes. */
export function wordsPerRow(law: Law): number;

/** Uniform words of 64 bits from a cryptographic source. */
export function secureWords(count: number): bigint[];

/** The released class, or a bit for each class, for the true class `y` and random words; bit for bit as in Python. */
export function draw(law: Law, y: number, words: readonly bigint[]): number | number[];
