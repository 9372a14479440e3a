// How a drop-down list offers all of the options, "label" or "value"; otherwise why it does not, in words for the agent.
function(wanted) {
  const one = this.nodeType === 1 ? this : this.parentElement;
  const list = one?.closest('select') ?? one?.closest('label')?.control;
  if (!list?.matches('select')) return 'it is not a drop-down list';
  if (list.matches(':disabled') || list.closest('[aria-disabled=true]')) return 'it is disabled';
  const words = text => text.trim().replace(/\s+/g, ' ');
  for (const kind of ['label', 'value']) {
    const found = wanted.map(text => [...list.options].filter(each => words(each[kind]) === words(text)));
    if (!found.every(each => each.length)) continue;
    return found.every(each => each.some(option => !option.matches(':disabled'))) ? kind : 'it is disabled';
  }
  return 'it has no such option';
}
