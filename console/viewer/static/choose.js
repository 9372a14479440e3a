// Two or more runs chosen on the list lead to their comparison; the first one chosen is the baseline.
const button = document.getElementById("compare-button");
const chosen = [];
for (const box of document.querySelectorAll(".choose")) {
  box.addEventListener("change", () => {
    if (box.checked) chosen.push(box.value);
    else chosen.splice(chosen.indexOf(box.value), 1);
    document.getElementById("compare-runs").value = chosen.join(",");
    button.disabled = chosen.length < 2;
  });
}
