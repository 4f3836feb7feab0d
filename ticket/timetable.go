package ticket

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Meeting is one time at which a course meets: every week on a day, or once on a
// date. Its text is "mon 10:00-11:30" or "2026-10-05 09:00-12:00", in the time of
// the place.
type Meeting struct {
	// Day is the day of the week, also of a date.
	Day time.Weekday
	// Date is empty for every week, else YYYY-MM-DD.
	Date string
	// From and To are minutes of the day; To is the first that is free again.
	From, To int
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseMeeting reads a meeting's text.
func ParseMeeting(text string) (Meeting, error) {
	day, hours, ok := strings.Cut(strings.TrimSpace(text), " ")
	from, to, both := strings.Cut(strings.TrimSpace(hours), "-")
	if !ok || !both {
		return Meeting{}, fmt.Errorf("meeting %q: must be like mon 10:00-11:30 or 2026-10-05 09:00-12:00", text)
	}
	var m Meeting
	if at := slices.Index(weekdays, strings.ToLower(day)); at >= 0 {
		m.Day = time.Weekday(at)
	} else {
		date, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return Meeting{}, fmt.Errorf("meeting %q: the day must be one of %s, or a date like 2026-10-05", text, strings.Join(weekdays, ", "))
		}
		m.Day, m.Date = date.Weekday(), day
	}
	var okFrom, okTo bool
	m.From, okFrom = minute(from)
	m.To, okTo = minute(to)
	if !okFrom || !okTo {
		return Meeting{}, fmt.Errorf("meeting %q: the hours must be like 10:00-11:30", text)
	}
	if m.To <= m.From {
		return Meeting{}, fmt.Errorf("meeting %q: must end after it begins, on the same day", text)
	}
	return m, nil
}

// minute reads HH:MM, up to 24:00.
func minute(text string) (int, bool) {
	h, m, ok := strings.Cut(strings.TrimSpace(text), ":")
	hours, err := strconv.Atoi(h)
	minutes, err2 := strconv.Atoi(m)
	if !ok || err != nil || err2 != nil || len(h) > 2 || len(m) != 2 || hours < 0 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	at := hours*60 + minutes
	return at, at <= 24*60
}

// String is the meeting's text.
func (m Meeting) String() string {
	day := m.Date
	if day == "" {
		day = weekdays[m.Day]
	}
	return fmt.Sprintf("%s %02d:%02d-%02d:%02d", day, m.From/60, m.From%60, m.To/60, m.To%60)
}

// overlaps says whether somebody would have to be in two places at once. What
// meets every week meets in the week of any date, too.
func (m Meeting) overlaps(other Meeting) bool {
	if m.Day != other.Day || m.Date != "" && other.Date != "" && m.Date != other.Date {
		return false
	}
	return m.From < other.To && other.From < m.To
}

// clash says whether two timetables have a time in common.
func clash(a, b []Meeting) bool {
	for _, m := range a {
		if slices.ContainsFunc(b, m.overlaps) {
			return true
		}
	}
	return false
}

// parseMeetings reads a timetable.
func parseMeetings(texts []string) ([]Meeting, error) {
	meetings := make([]Meeting, 0, len(texts))
	for _, text := range texts {
		m, err := ParseMeeting(text)
		if err != nil {
			return nil, err
		}
		meetings = append(meetings, m)
	}
	return meetings, nil
}

// meetingTexts are the texts of a timetable.
func meetingTexts(meetings []Meeting) []string {
	texts := make([]string, len(meetings))
	for i, m := range meetings {
		texts[i] = m.String()
	}
	return texts
}
