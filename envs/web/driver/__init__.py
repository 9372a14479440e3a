"""What drives the browser, inside the sandbox: run there by the box's own Python with the Playwright of the image, so
it imports nothing of turnwise but its neighbours here.

``driver`` listens on a unix socket and answers one request at a time; ``browser`` holds Chromium, its context and its
tabs; ``act`` does what the agent wrote; ``look`` says what there is to see. Whatever a page does (an endless script, a
storm of dialogs, a crash), a request ends within its deadline, if need be with a new browser.
"""
