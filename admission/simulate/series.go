package simulate

// Series are samples, StepS seconds apart.
type Series struct {
	StepS    float64   `json:"step_s"`
	Waiting  []int     `json:"waiting"`
	Inside   []int     `json:"inside"`
	Bought   []int     `json:"bought"`
	Admitted []float64 `json:"admitted_per_s"`
	Allowed  []float64 `json:"allowed_per_s"` // what the law decided
	Usage    []float64 `json:"usage"`
	// Lanes are those who wait in each lane, of an event that has any.
	Lanes [][]int `json:"lanes_waiting,omitempty"`
}

// mostSamples is how many samples a series has at most: twice as many are halved.
const mostSamples = 600

// sample is called at each tick.
func (r *Report) sample(p *play, tick int64) {
	usage := 0.0
	if p.site.max > 0 {
		usage = min(1, float64(p.site.busy+len(p.site.queue)-p.site.next)/float64(p.site.max))
	}
	if r.begun = r.begun || usage > 0; r.begun && !p.soldOut() {
		r.usages[int(usage*1000)]++
		if usage > 0.95 {
			r.OverS += 0.1
		}
	}
	s := &r.Series
	every := int64(s.StepS * 10)
	if tick%every != 0 {
		return
	}
	s.Waiting, s.Inside, s.Bought = append(s.Waiting, p.line.waiting), append(s.Inside, p.line.inside), append(s.Bought, p.sold)
	s.Admitted = append(s.Admitted, round(float64(r.Admitted-r.base)/s.StepS, 3))
	allowed := 0.0
	for _, of := range p.paces {
		allowed += of.decision.RatePerS
	}
	s.Allowed = append(s.Allowed, round(min(allowed, r.RatePerS), 3))
	for i := range s.Lanes {
		s.Lanes[i] = append(s.Lanes[i], p.line.lanes[i].waiting)
	}
	mean := p.site.published
	if mean.Max > 0 {
		usage = mean.Wanted()
	}
	s.Usage = append(s.Usage, round(usage, 3))
	r.base = r.Admitted
	if len(s.Waiting) > 2*mostSamples {
		s.halve()
	}
}

// halve keeps every other sample; admissions are the mean of two.
func (s *Series) halve() {
	n := len(s.Waiting) / 2
	for i := range n {
		k := 2 * i
		s.Waiting[i], s.Inside[i], s.Bought[i] = s.Waiting[k], s.Inside[k], s.Bought[k]
		s.Allowed[i], s.Usage[i] = s.Allowed[k], s.Usage[k]
		s.Admitted[i] = round((s.Admitted[max(0, k-1)]+s.Admitted[k])/2, 3)
	}
	s.Waiting, s.Inside, s.Bought = s.Waiting[:n], s.Inside[:n], s.Bought[:n]
	s.Admitted, s.Allowed, s.Usage = s.Admitted[:n], s.Allowed[:n], s.Usage[:n]
	for i, of := range s.Lanes {
		for k := range n {
			of[k] = of[2*k]
		}
		s.Lanes[i] = of[:n]
	}
	s.StepS *= 2
}
