package waitroom

// Outlook is what an event's own admissions say of the time that its line takes: how
// fast it moves, and how well the estimates held that people were shown before. The
// zero value knows nothing. It is not for concurrent use.
type Outlook struct {
	pace  pace
	cover coverage
}

// Admit tells that somebody was let in, at a moment of the event's clock (ms).
func (o *Outlook) Admit(moment int64, seq Seq) {
	o.pace.admit(moment, 1)
	o.cover.admit(moment, seq)
}

// Depart tells that somebody left the line.
func (o *Outlook) Depart(seq Seq) { o.cover.depart(seq) }

// Look tells, many times a second, whether somebody waits to be let in.
func (o *Outlook) Look(moment int64, waits bool) {
	o.pace.look(moment, waits)
	o.cover.look(moment)
}

// Turn tells that the rate was set anew: what was seen says nothing of what comes.
func (o *Outlook) Turn() {
	o.pace = pace{}
	o.cover.turn()
}

// Pause tells that nobody is let in, by intention: who is late for that reason
// teaches nothing.
func (o *Outlook) Pause() { o.cover.turn() }

// Flow is how fast the line moves at a moment, under the event's cap.
func (o *Outlook) Flow(moment int64, perS float64) Flow {
	f := o.pace.flow(moment, perS)
	f.HalfOff, f.MostOff = o.cover.off[0], o.cover.off[1]
	return f
}

// Note remembers, once a second, what somebody is shown, to learn from what comes:
// one of those behind the last that was let in, up to the newest.
func (o *Outlook) Note(moment int64, newest Seq, position func(Seq) (int64, bool), f Flow) {
	o.cover.note(moment, newest, position, f)
}

// Coverage is how good the estimates were; false before anybody's turn came.
func (o *Outlook) Coverage() (Coverage, bool) { return o.cover.figures() }
