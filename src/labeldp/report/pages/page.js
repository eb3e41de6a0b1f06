"use strict";
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
