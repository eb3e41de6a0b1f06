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
  for (const folded of document.querySelectorAll(".folded")) { folded.open = true; }
});
