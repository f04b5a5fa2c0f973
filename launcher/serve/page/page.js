
// The start of the page, its two views on narrow screens, and the key.

/// Shows the field for a key with what was wrong with the last one.
function askForKey(error) {
  const form = byId("key-form");
  const wasHidden = form.hidden;
  form.hidden = false;
  setText(byId("key-error"), error);
  if (wasHidden) byId("key").focus();
}

function useKey() {
  const key = byId("key").value.trim();
  if (!/^[\x21-\x7e]+$/.test(key)) return askForKey("A key is made of ASCII characters without blanks.");
  sessionStorage.setItem(KEY, key);
  byId("key").value = "";
  byId("key-form").hidden = true;
  byId("prompt").focus();
  lookNow();
}

function startKey() {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey();
  });
  byId("forget-key").addEventListener("click", () => {
    sessionStorage.removeItem(KEY);
    byId("settings").close();
    lookNow();
  });
}

function startViews() {
  const buttons = [...byId("views").children];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      document.body.dataset.view = button.dataset.view;
      for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
    });
  }
}

startSettings();
startViews();
startKey();
startChat();
startEngine();
