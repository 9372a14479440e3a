(async () => {
  // Undo what an earlier episode may have left: focus, Tab position, selection, scrolling, text.
  const first = document.createElement('span');
  first.tabIndex = -1;
  document.body.prepend(first);
  first.focus();
  first.remove();
  getSelection().removeAllRanges();
  for (const one of document.querySelectorAll('*')) if (one.scrollTop || one.scrollLeft) one.scrollTo(0, 0);
  for (const one of document.querySelectorAll('input, textarea')) {
    // Removing a field from the page and restoring it clears its undo history.
    const place = document.createComment('');
    one.replaceWith(place);
    place.replaceWith(one);
    one.value = one.defaultValue;
    one.checked = one.defaultChecked;
  }
  if (!document.getElementById('turnwise')) {
    const style = document.createElement('style');
    style.id = 'turnwise';
    style.textContent = '#reward-display, #click-canvas, #sync-task-cover, #query { display: none !important } '
      + '* { transition: none !important; animation: none !important; caret-color: transparent !important }';
    document.head.appendChild(style);
    const policy = document.createElement('meta');
    policy.httpEquiv = 'Content-Security-Policy';
    policy.content = "script-src 'self' 'unsafe-eval'; frame-src 'none'; object-src 'none'";
    document.head.appendChild(policy);
    addEventListener('keydown', event => {
      if (event.key !== '<') return;
      event.preventDefault();
      event.stopImmediatePropagation();
    }, true);
    addEventListener('input', event => {
      const one = event.target;
      if (String(one.value).includes('<')) one.value = one.value.replaceAll('<', '');
    }, true);
  }
  if (window.jQuery) {
    jQuery.fx.off = true;
    if (jQuery.ui && jQuery.ui.autocomplete) jQuery.ui.autocomplete.prototype.options.delay = 0;
    if (jQuery.ui && jQuery.ui.menu) jQuery.ui.menu.prototype.delay = 0;
  }
  Math.seedrandom(SEED);
  // Longer than any episode.
  core.EPISODE_MAX_TIME = 1000000;
  core.startEpisodeReal();
  core.clearTimer();
  window.TURNWISE_BEGAN = true;
  while (!WOB_TASK_READY) await new Promise(done => setTimeout(done, 5));
  const utterance = core.getUtterance();
  return typeof utterance === 'string' ? utterance : utterance.utterance;
})()
