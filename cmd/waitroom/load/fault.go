package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
)

// fault is something that went wrong, booked as the tool's own or as the server's.
type fault struct {
	own  bool
	kind string
	text string
}

// statusKind names an answer that the contract does not allow here.
func statusKind(status int) string { return "http_" + strconv.Itoa(status) }

// classify says whose fault a transport error is. busy is true if the tool's own
// timers ran late just now: then a timeout proves nothing against the server.
// ok is false for an error that is nobody's fault: the run was ended.
func classify(ctx context.Context, err error, busy bool) (f fault, ok bool) {
	if ctx.Err() != nil {
		return fault{}, false
	}
	f.text = err.Error()
	own := func(kind string) (fault, bool) { f.own, f.kind = true, kind; return f, true }
	server := func(kind string) (fault, bool) { f.kind = kind; return f, true }
	var netErr net.Error
	var dnsErr *net.DNSError
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return own("no_files")
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
		return own("no_ports")
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return own("no_memory")
	case errors.As(err, &dnsErr):
		return own("no_address")
	case isTimeout(err, &netErr):
		if busy {
			return own("timeout_while_late")
		}
		return server("timeout")
	case errors.Is(err, syscall.ECONNREFUSED):
		return server("refused")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return server("reset")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return server("cut")
	case isTLS(err):
		return server("tls")
	default:
		return server("protocol")
	}
}

func isTimeout(err error, netErr *net.Error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, netErr) && (*netErr).Timeout()
}

func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	return errors.As(err, &verify) || errors.As(err, &host) || errors.As(err, &record)
}
