package initiator

// line is a list of requests that wait, in order.
type line struct {
	head, tail *Request
}

// enqueue puts a request at the end.
func (l *line) enqueue(r *Request) {
	r.next = nil
	if l.tail != nil {
		l.tail.next = r
	} else {
		l.head = r
	}
	l.tail = r
}

// dequeue takes the first request out of a line that is not empty.
func (l *line) dequeue() *Request {
	r := l.head
	if l.head = r.next; l.head == nil {
		l.tail = nil
	}
	r.next = nil
	return r
}

// withdraw takes a request out of the line and says whether it was there.
func (l *line) withdraw(r *Request) bool {
	var prev *Request
	for p := l.head; p != nil; prev, p = p, p.next {
		if p != r {
			continue
		}
		if prev != nil {
			prev.next = r.next
		} else {
			l.head = r.next
		}
		if l.tail == r {
			l.tail = prev
		}
		r.next = nil
		return true
	}
	return false
}

// takeUnwanted takes out the requests that nobody waits for any more.
func (l *line) takeUnwanted() (unwanted []*Request) {
	all := *l
	*l = line{}
	for all.head != nil {
		if r := all.dequeue(); r.unwanted() {
			unwanted = append(unwanted, r)
		} else {
			l.enqueue(r)
		}
	}
	return unwanted
}

// takeAll empties the line.
func (l *line) takeAll() (all []*Request) {
	for l.head != nil {
		all = append(all, l.dequeue())
	}
	return all
}
