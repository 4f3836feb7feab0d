package redisbroker

import (
	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// keys of one installation; the tag puts them on one cluster slot.
type keys struct {
	log, seen, dead string
}

func newKeys(prefix string) keys {
	return keys{
		log:  prefix + ":{tickets}:log",
		seen: prefix + ":{tickets}:seen",
		dead: prefix + ":{tickets}:dead",
	}
}

// The fields of a log record. A dead letter has cause and origin as well.
const (
	fieldID      = "id"
	fieldEvent   = "event"
	fieldTopic   = "topic"
	fieldKey     = "key"
	fieldPayload = "payload"
	fieldCause   = "cause"
	fieldOrigin  = "origin"
)

// messageOf reads a record; fields that it does not know are left alone, so that
// newer publishers may add some.
func messageOf(x redis.XMessage) relay.Message {
	text := func(field string) string {
		s, _ := x.Values[field].(string)
		return s
	}
	return relay.Message{
		DedupID: text(fieldID), Event: text(fieldEvent), Topic: text(fieldTopic), Key: text(fieldKey),
		Payload: []byte(text(fieldPayload)),
	}
}
