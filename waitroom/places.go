package waitroom

import "github.com/waitroom-dev/waitroom/waitroom/rank"

// places are the lines of an event, one for each lane, as what View knows of them. An
// event without lanes has one.
type places []*rank.Line

// newPlaces begins lines of which nothing is known yet.
func newPlaces(t feedTail) (places, error) {
	p := make(places, len(t.lanes))
	for i, lane := range t.lanes {
		var err error
		if p[i], err = rank.New(lane.base); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// of is the number of the lane of a sequence; a sequence of a lane that is not there is
// one of the last, for which it is out of bounds.
func (p places) of(seq Seq) int {
	if len(p) == 1 {
		return 0
	}
	return min(max(0, int(seq/laneSpan)), len(p)-1)
}

// line is the one in which a sequence stands.
func (p places) line(seq Seq) *rank.Line { return p[p.of(seq)] }

// position is the place of a sequence in its lane.
func (p places) position(seq Seq) (int64, bool) { return p.line(seq).Position(int64(seq)) }

// take takes one record over: all of it or, with an error, a part.
func (p places) take(rec feedRecord) error {
	for _, g := range rec.granted {
		if _, err := p.line(g.Seq).Depart(int64(g.Seq)); err != nil {
			return err
		}
	}
	for _, d := range rec.departed {
		if _, err := p.line(d.Seq).Depart(int64(d.Seq)); err != nil {
			return err
		}
	}
	for _, seq := range rec.returned {
		if _, err := p.line(seq).Return(int64(seq)); err != nil {
			return err
		}
	}
	return nil
}

// limit is where the scores of a lane end; 0: nowhere.
func (p places) limit(lane int) int64 {
	if len(p) == 1 {
		return 0
	}
	return int64(lane+1) * laneSpan
}
