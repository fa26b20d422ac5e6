"""Generated values are the same in every run, so that CI fails for a change and never for luck. Luck has a word of its
own: `make fuzz` draws others each time, and more of them; what it finds becomes an `@example`."""

import hypothesis

hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")
