# The payload of a record of a journal; README.md has what is around it. Fields are only ever added.
@0xaf7094ac98ffc545;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::journal::wire");

struct Record {
  union {
    job @0 :Job;           # the first record, and no other
    rows @1 :List(Row);    # rows that became durable together
  }
}

struct Job {
  version @0 :UInt32;
  rows @1 :UInt64;         # of the whole job
  facts @2 :List(Fact);    # what must be the same whenever the job goes on
  notes @3 :List(Fact);    # what the first start found out and later ones take over
}

struct Fact {
  name @0 :Text;
  value @1 :Text;
}

struct Row {
  row @0 :UInt64;          # index in the job
  answers @1 :List(Answer);
  error @2 :Text;          # empty, or why this row has no answers
}

struct Answer {
  tokens @0 :List(Int32);
  text @1 :Text;
  finishReason @2 :Text;
  score :union {
    none @3 :Void;
    value @4 :Float64;
  }
  logprobs @5 :List(Float32);
  likeliest @6 :List(List(TokenLogprob));
}

struct TokenLogprob {
  id @0 :Int32;
  logprob @1 :Float32;
}
