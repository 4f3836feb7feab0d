package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Deed is what becomes of a request.
type Deed string

// The deeds.
const (
	Pass  Deed = "pass"   // goes through unasked
	Wait  Deed = "wait"   // needs an entry token
	Spend Deed = "spend"  // needs one, and uses it up
	Deny  Deed = "refuse" // goes nowhere
)

// Rule says what becomes of requests that fit everything it names.
type Rule struct {
	// Path is an exact path, or one that ends in / and stands for all below it too.
	Path string `yaml:"path"`
	// Method is one HTTP method.
	Method string `yaml:"method"`
	// Header is "Name: value", or "Name" for any value.
	Header string `yaml:"header"`
	// Address is a network, or an address, that the client's lies in.
	Address string `yaml:"address"`
	// Do is what becomes of it.
	Do Deed `yaml:"do"`

	header [2]string
	prefix netip.Prefix
}

// Rules are tried in order; the first that fits decides.
type Rules []Rule

// ReadRules reads a file of rules, strictly. The error names the rule and the field.
func ReadRules(raw []byte) (Rules, error) {
	var file struct {
		Rules Rules `yaml:"rules"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var faults []error
	for i := range file.Rules {
		if err := file.Rules[i].prepare(); err != nil {
			faults = append(faults, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	return file.Rules, errors.Join(faults...)
}

func (r *Rule) prepare() error {
	var faults []error
	if !slices.Contains([]Deed{Pass, Wait, Spend, Deny}, r.Do) {
		faults = append(faults, fmt.Errorf("do: %q is none of pass, wait, spend, refuse", r.Do))
	}
	if r.Path+r.Method+r.Header+r.Address == "" {
		faults = append(faults, errors.New("name at least one of path, method, header, address"))
	}
	if r.Path != "" && cleanPath(r.Path) != r.Path {
		faults = append(faults, fmt.Errorf("path: %q must begin with / and hold no dots or doubled slashes", r.Path))
	}
	if r.Method != strings.ToUpper(r.Method) {
		faults = append(faults, fmt.Errorf("method: %q must be in capitals, such as POST", r.Method))
	}
	if r.Header != "" {
		name, value, _ := strings.Cut(r.Header, ":")
		r.header = [2]string{textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)}
		if r.header[0] == "" || strings.ContainsAny(r.header[0], " \t") {
			faults = append(faults, fmt.Errorf("header: %q is no \"Name: value\"", r.Header))
		}
	}
	if r.Address != "" {
		var err error
		if r.prefix, err = networkOf(r.Address); err != nil {
			faults = append(faults, fmt.Errorf("address: %q is no network such as 10.0.0.0/8", r.Address))
		}
	}
	return errors.Join(faults...)
}

func networkOf(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return a.Prefix(a.BitLen())
}

// of is what becomes of a request from that address; its path must be clean.
func (rs Rules) of(r *http.Request, from netip.Addr) Deed {
	for i := range rs {
		if rs[i].fits(r, from) {
			return rs[i].Do
		}
	}
	return Wait
}

func (r *Rule) fits(req *http.Request, from netip.Addr) bool {
	path := req.URL.Path
	if r.Path != "" && path != r.Path && (!strings.HasSuffix(r.Path, "/") || !strings.HasPrefix(path, r.Path)) {
		return false
	}
	if r.Method != "" && req.Method != r.Method {
		return false
	}
	if name, value := r.header[0], r.header[1]; name != "" {
		got := req.Header.Values(name)
		if len(got) == 0 || value != "" && !slices.Contains(got, value) {
			return false
		}
	}
	return r.Address == "" || r.prefix.Contains(from.Unmap())
}
