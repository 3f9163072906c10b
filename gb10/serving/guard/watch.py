"""Watches one text as it arrives: cheap signs every 64 characters, dearer ones less often, the rest at its end."""

from collections import Counter

from gb10.serving.guard import signs
from gb10.serving.guard.finding import Finding, Verdict
from gb10.serving.guard.limits import Limits

STRIDE = 64
DEARER = 4
"""Strides between two looks at variety, odd characters and scripts."""
FLOOD_PIECES = 4
"""Pieces of a flood of one digit, grouped or not: ``flood`` judges it."""
FAR = 16
"""Strides between two looks for loops that are longer than the window."""
HISTORY = 1 << 18
"""Characters in which such a loop is looked for."""


class Watch:
    """One channel of one stream. ``sure`` is the first finding that decides a verdict: nothing is sought after it."""

    def __init__(self, limits: Limits, channel: str = "content", *, forced: bool = False) -> None:
        """``forced``: the server was made to go on after the answer's end, so repetition is no kernel's fault."""
        self.limits = limits
        self.channel = channel
        self.forced = forced
        self.characters = 0
        self.sure: Finding | None = None
        self.visible = False
        self._tail = ""
        self._fresh: list[str] = []
        self._waiting = 0
        self._strides = 0
        self._suspects: dict[str, Finding] = {}
        self._pieces = 0
        """Different pieces of four characters, as they were last counted."""
        self._history = ""
        self._newer: list[str] = []

    def feed(self, text: str) -> None:
        """Take what arrived, of any length; ``sure`` is set as soon as it is."""
        self._fresh.append(text)
        self._waiting += len(text)
        if self._waiting >= STRIDE:
            self._take(self._waiting // STRIDE * STRIDE)

    def _take(self, count: int) -> None:
        """Look at every whole stride among ``count`` characters, so that how a text is cut decides nothing."""
        text = "".join(self._fresh)
        self._fresh[:] = [text[count:]]
        self._waiting -= count
        self.visible = self.visible or bool(text.strip())
        for at in range(0, count, STRIDE):
            piece = text[at : min(count, at + STRIDE)]
            self.characters += len(piece)
            if self.sure is None:
                self._tail = (self._tail + piece)[-self.limits.window :]
                self._newer.append(piece)
                self._look()

    def _look(self) -> None:
        self._strides += 1
        self.sure = self._flood() or self._loop()
        if self.sure is None and self._strides % DEARER == 0:
            self.sure = self._odd() or self._mixed() or self._raw() or self._few() or self._share()
            if self.sure is None and self._strides % FAR == 0:
                self.sure = self._far()
                self._suspect()

    def end(self) -> tuple[Finding, ...]:
        """All findings, the sure one first; a short answer is judged as a whole. Call it once, after the last text."""
        self._take(self._waiting)
        if self.sure is None and self.characters >= self.limits.flood_short:
            self.sure = self._flood() or self._loop() or self._odd() or self._mixed() or self._raw() or self._few()
            self.sure = self.sure or self._share() or self._far() or self._short()
        if self.sure is None:
            self._suspect()
        return (*([self.sure] if self.sure else ()), *self._suspects.values())

    def _flood(self) -> Finding | None:
        limits = self.limits
        unit, extent = signs.repeated(self._tail, limits.flood_unit, limits.loop_times)
        if not unit or extent < limits.flood:
            return None
        drawn = not set(self._tail[-unit:]) - set(limits.drawn)
        if drawn and extent < limits.flood_drawn:
            return None
        if signs.numeric(self._tail[-unit:]) == 1 and extent < min(limits.flood_digits, self.characters):
            self._note(
                "digits", f"the last {extent:,} characters are {self._tail[-unit:]!r}: a long number, or a flood"
            )
            return None
        onset = self.characters - extent
        own = self.forced and onset >= limits.own
        text = f"the last {extent:,} characters are {self._tail[-unit:]!r}, over and over"
        return self._found("flood", onset, text, Verdict.LOOP if own else Verdict.GARBAGE)

    def _loop(self) -> Finding | None:
        limits = self.limits
        unit, extent = signs.repeated(self._tail, limits.loop_unit, limits.loop_times)
        if unit <= limits.flood_unit or extent < limits.loop:
            return None
        onset = self.characters - extent
        text = f"a text of {unit} characters repeats, {extent / unit:.1f} times so far"
        own = onset >= limits.own or self.forced
        return self._found("loop", onset, text, Verdict.LOOP if own else Verdict.GARBAGE)

    def _few(self) -> Finding | None:
        limits = self.limits
        text = self._tail[-limits.few_window :]
        if len(text) < limits.few_window:
            return None
        found = self._pieces = signs.pieces(text)
        if found > limits.few:
            return None
        if self._is_number(text, found):
            self._note("digits", f"only few different digits in the last {len(text):,} characters")
            return None
        onset = self.characters - len(text)
        own = self.forced and onset >= limits.own
        what = f"only {found} different pieces of four characters in the last {len(text):,}"
        return self._found("few", onset, what, Verdict.LOOP if own else Verdict.GARBAGE)

    def _is_number(self, text: str, pieces: int) -> bool:
        """Whether few pieces are those of a number that people ask for: two digits and more, or one over and over."""
        return signs.numeric(text) >= self.limits.numeric and (signs.digits(text) > 1 or pieces <= FLOOD_PIECES)

    def _share(self) -> Finding | None:
        """A flood with other tokens in it: what the share of one character, of blanks, of one word says."""
        limits = self.limits
        text = self._tail[-limits.few_window :]
        if len(text) < limits.few_window or self._pieces > limits.share_pieces:
            return None
        [(sign, count)] = Counter(text).most_common(1)
        share = count / len(text)
        ends = text.count("\n") + text.count("\r")
        blanks, lines = (ends + text.count(" ") + text.count("\t")) / len(text), ends / len(text)
        one_line = text.count("\n") <= limits.share_lines and signs.numeric(text) < limits.numeric
        least = limits.share_letter if sign.isascii() and sign.isalpha() else limits.share
        what = ""
        if lines >= limits.lines_share or blanks >= limits.blanks_share:
            what = f"{max(blanks, lines):.0%} of the last {len(text):,} characters are blanks and line ends"
        elif share >= least and (one_line or not signs.plain(sign)):
            what = f"{share:.0%} of the last {len(text):,} characters are {sign!r}"
        elif (share := signs.commonest_pieces(text)) >= limits.share_of_pieces:
            what = f"eight pieces of four characters are {share:.0%} of the last {len(text):,} characters"
        else:
            word, share = signs.commonest_word(self._tail, limits.words_window)
            if share >= limits.word_share:
                what = f"{share:.0%} of the last {limits.words_window} words are {word[:40]!r}"
        if not what:
            return None
        onset = self.characters - len(text)
        return self._found(
            "share", onset, what, Verdict.LOOP if self.forced and onset >= limits.own else Verdict.GARBAGE
        )

    def _raw(self) -> Finding | None:
        limits = self.limits
        text = self._tail[-limits.odd_window :]
        share = signs.raw_bytes(text)
        if len(text) < limits.odd_window // 2 or share < limits.bytes_share:
            return None
        what = f"{min(share, 1):.0%} of the last {len(text)} characters are bytes that nobody decoded"
        return self._found("bytes", self.characters - len(text), what)

    def _far(self) -> Finding | None:
        """An exact loop of any length, among the last HISTORY characters."""
        limits = self.limits
        self._history = (self._history + "".join(self._newer))[-HISTORY:]
        self._newer.clear()
        unit, extent = signs.far_loop(self._history, limits.loop_times)
        if unit <= limits.loop_unit:
            return None
        onset = self.characters - extent
        text = f"a text of {unit:,} characters repeats, {extent / unit:.1f} times so far"
        own = onset >= limits.own or self.forced
        return self._found("loop", onset, text, Verdict.LOOP if own else Verdict.GARBAGE)

    def _odd(self) -> Finding | None:
        limits = self.limits
        text = self._tail[-limits.odd_window :]
        found = signs.odd(text)
        if found < limits.odd_least or found < limits.odd_share * len(text):
            return None
        what = f"{found} of the last {len(text)} characters are control, replacement or private ones: no text has them"
        return self._found("odd", self.characters - len(text), what)

    def _mixed(self) -> Finding | None:
        limits = self.limits
        text = self._tail[-limits.odd_window :]
        found, scripts = signs.mixed(text)
        least = min(limits.mixed, max(6, limits.mixed_short_share * len(text)))
        if scripts < limits.mixed_scripts or found < least:
            return None
        what = f"letters of {scripts} unrelated scripts side by side, {found} times in the last {len(text)} characters"
        return self._found("mixed", self.characters - len(text), what)

    def _short(self) -> Finding | None:
        """An answer that ended before the limits of a long one: the share of its repetition counts."""
        limits, text = self.limits, self._tail
        if self.characters > limits.few_window:
            return None
        unit, extent = signs.repeated(text, limits.flood_unit, limits.loop_times)
        least = limits.flood_short_drawn if unit and not set(text[-unit:]) - set(limits.drawn) else limits.flood_short
        number = bool(unit) and extent < len(text) and signs.numeric(text[-unit:]) == 1
        if unit and not number and extent >= max(least, limits.flood_short_share * len(text)):
            return self._found("flood", len(text) - extent, f"{extent} of {len(text)} characters are {text[-unit:]!r}")
        few = signs.pieces(text) if len(text) >= limits.few_short else len(text)
        if few <= min(limits.few, limits.few_short_share * len(text)) and not self._is_number(text, few):
            return self._found("few", 0, f"only {few} different pieces of four characters in {len(text)}")
        return None

    def _suspect(self) -> None:
        limits, tail = self.limits, self._tail
        long = len(tail) >= limits.zipped_window
        if long and (share := signs.zipped(tail[-limits.zipped_window :])) <= limits.zipped_share:
            self._note("zipped", f"the last {limits.zipped_window:,} characters compress to {share:.0%}")
        words = tail.split()[-limits.words_window :]
        if len(words) == limits.words_window and (different := len(set(words))) <= limits.words:
            self._note("words", f"only {different} different words among the last {limits.words_window}")
        if (
            long
            and (share := signs.same_phrases(tail[-limits.zipped_window :], limits.phrases_least)) <= limits.phrases
        ):
            self._note("nearly", f"only {share:.0%} of the phrases of three words are different ones")
        if len(tail) >= limits.fuzzy:
            unit = signs.nearly_repeated(tail[-limits.fuzzy :], limits.fuzzy // 4, limits.fuzzy_share)
            if unit:
                self._note("nearly", f"about the same {unit} characters repeat for {limits.fuzzy:,}")

    def _note(self, sign: str, what: str) -> None:
        self._suspects.setdefault(sign, self._found(sign, self.characters, what, Verdict.SUSPECT))

    def _found(self, sign: str, onset: int, what: str, verdict: Verdict = Verdict.GARBAGE) -> Finding:
        return Finding(
            verdict=verdict, sign=sign, at=self.characters, onset=max(0, onset), what=what, channel=self.channel
        )
