for (const odds of document.querySelectorAll(".odds")) {
  const pairs = odds.dataset.pairs.split(",").map((pair) => pair.split(" "));
  const slider = odds.querySelector("input");
  const show = () => {
    const [least, most] = pairs[slider.value - 1];
    odds.querySelector(".before").textContent = slider.value;
    odds.querySelector(".least").textContent = least;
    odds.querySelector(".most").textContent = most;
  };
  slider.addEventListener("input", show);
  show();
  odds.hidden = false;
}
for (const choice of document.querySelectorAll(".choice")) {
  const part = choice.closest("article");
  const rows = [...choice.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  const [slider, command] = [choice.querySelector(".slide"), choice.querySelector(".command")];
  const sought = choice.querySelector(".sought");
  const show = () => {
    const row = rows[slider.value];
    choice.querySelectorAll(".cell").forEach((cell, i) => { cell.textContent = row[i]; });
    slider.setAttribute("aria-valuetext", row[0]);
    if (command) { command.textContent = command.dataset.command.replace("EPSILON", row[0]); }
    for (const place of part.querySelectorAll(".filled")) { place.textContent = row[0]; }
  };
  slider.addEventListener("input", () => { sought.textContent = ""; show(); });
  for (const target of choice.querySelectorAll(".target")) {
    target.addEventListener("input", () => {
      if (target.value === "" || Number.isNaN(target.valueAsNumber)) { sought.textContent = ""; return; }
      const [numbers, wanted] = [target.dataset.numbers.split(" ").map(Number), target.valueAsNumber];
      const meets = (number) => (target.dataset.atMost === "1" ? number <= wanted : number >= wanted);
      const places = [...numbers.keys()].filter((place) => meets(numbers[place]));
      if (!places.length) { sought.textContent = "No epsilon of this page reaches that."; return; }
      slider.value = target.dataset.largest === "1" ? places[places.length - 1] : places[0];
      show();
      sought.textContent = `Epsilon ${rows[slider.value][0]}.`;
    });
  }
  const copying = choice.querySelector(".copying");
  if (copying) {
    const said = copying.querySelector("span");
    copying.hidden = false;
    copying.querySelector(".copy").addEventListener("click", () => {
      getSelection().selectAllChildren(command);
      const copied = navigator.clipboard ? navigator.clipboard.writeText(command.textContent) : Promise.reject();
      copied.then(() => { said.textContent = "Copied."; }, () => { said.textContent = "It is selected: press Ctrl and C."; });
    });
  }
  show();
  choice.querySelector(".chosen").hidden = false;
  choice.querySelector(".table").open = false;
}
for (const place of document.querySelectorAll(".recheck")) {
  const text = place.parentElement.querySelector(".certificate").textContent;
  const found = verifyCertificate(text);
  const say = (words) => { place.append(Object.assign(document.createElement("p"), { textContent: words })); };
  if (found.holds === false) {
    place.classList.add("bad");
    say("Checked here, now: the certificate below does not hold.");
    say(found.checks[found.checks.length - 1].slice(0, 3).filter((part) => typeof part === "string").join(": "));
  } else if (found.holds === null) {
    say("Checked here, now, by your own browser: the certificate adds up, as far as this page can tell.");
  } else {
    say(`Checked here, now, by your own browser: epsilon ${found.epsilon} follows from the integers of the certificate.`);
  }
  say(`Left to labeldp verify: ${found.left.join(", ")}.`);
  place.hidden = false;
}
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".folded, .choice .table")) { folded.open = true; }
});
