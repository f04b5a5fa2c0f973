# The protocol between an engine (rank 0 of a group that serves one model) and its clients: Cap'n Proto RPC over a Unix
# socket, or over TCP with a secret.
#
#   client ──► Entrance.enter(secret) ──► Engine ──generate(request, sink)──► Call
#                                                       tokens, … , done | failed ──► Sink of the client
#
# Version 5. New versions only add fields and methods; a field that a client does not set has the meaning of its default.
@0xc69dc0b31c1ae9a7;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::rpc::wire");

const version :UInt32 = 5;

# What a connection gives.
interface Entrance {
  enter @0 (secret :Data) -> Entry;
  # `secret`: the contents of the engine's secret file; empty over a Unix socket. Another one is refused.

  struct Entry {
    union {
      engine @0 :Engine;
      failure @1 :Failure;
    }
  }
}

interface Engine {
  facts @0 () -> (facts :Facts);
  status @1 () -> (status :Status);

  generate @2 (request :Request, sink :Sink) -> Opened;
  # Opens a request, which joins the running batch. Its answer does not depend on other requests. Dropping the call
  # cancels the request, and so does a lost connection.

  struct Opened {
    union {
      call @0 :Call;
      failure @1 :Failure;    # nothing was opened, and the sink gets nothing
    }
    number @2 :Int64 = -1;    # of the request, as in Activity
  }

  score @4 (ids :List(Int32), top :UInt32) -> (scored :Scored);
  # The model's log-probability of each id given those before it, and the `top` likeliest ids in its place. The text is
  # batched with the running requests. Dropping the call cancels it.

  activity @5 () -> (activity :Activity);
  # What the slots, the ranks and the last steps do, for a view of the engine. Costs the ranks nothing.

  finish @3 ();
  # Ends the engine once every open request has its answer. New requests are refused.
}

interface Call {
  cancel @0 ();
  # Ends the request with the tokens so far; the sink gets `done`.
}

interface Sink {
  tokens @0 (tokens :List(Token)) -> stream;
  # In order. A slow client gets longer lists, and delays no other request.
  done @1 (answers :List(Answer));
  # The last call: one answer for each of num_return_sequences.
  failed @2 (failure :Failure);
  # The last call, instead of `done`.
}

struct Facts {
  version @0 :UInt32;         # of this protocol
  model @1 :Text;             # the directory's name
  ranks @2 :UInt32;
  slots @3 :UInt32;           # sequences that run at once
  capacity @4 :UInt32;        # tokens of a slot
  vocabulary @5 :UInt32;
  backend @6 :Text;
  dtype @7 :Text;
  replicas @8 :List(Address); # of engines like this one that the same launch has started, and which serve apart from it
  identity @9 :Text;          # equal for engines that can go on with each other's requests

  struct Address {
    socket @0 :Text;          # empty: TCP
    host @1 :Text;
    port @2 :UInt16;
    secret @3 :Data;          # empty with a socket
  }
}

struct Status {
  running @0 :UInt32;         # requests now
  queued @1 :UInt32;
  submitted @2 :UInt64;       # requests since the start, as are the rest
  finished @3 :UInt64;
  promptTokens @4 :UInt64;
  newTokens @5 :UInt64;
  reusedTokens @6 :UInt64;    # of prompts, from slots that held them
  steps @7 :UInt64;           # number of the last step
  stepAgeS @8 :Float64 = nan;    # seconds since it ended; NaN: there was none
  ranks @9 :List(Text);       # the state of each: "starting", "ready", "lost", "ended"
  presence @10 :List(Presence);    # of each rank
}

# What rank 0 knows of a rank beside its work.
struct Presence {
  host @0 :Text;              # empty: not known
  silentS @1 :Float64;        # seconds since its last sign of life
  leaving @2 :Bool;           # it will have to end before long: its host is to be taken away
}

struct Activity {
  slots @0 :List(Slot);
  steps @1 :List(Step);       # the last 64, oldest first
  ranks @2 :List(Rank);

  struct Slot {
    number @0 :UInt32;
    state @1 :Text;           # "free"; "kept": free, with tokens that a request may reuse; "prefill", "decode"
    request @2 :Int64 = -1;   # number in Opened; -1: none, or a text to score
    tokens @3 :UInt32;        # that it holds
    newTokens @4 :UInt32;     # of the request
  }

  struct Step {
    number @0 :UInt64;        # from 1, since the start
    kind @1 :Text;            # "prefill", "decode", "score"
    rows @2 :UInt32;
    seconds @3 :Float64;      # that it took
    ageS @4 :Float64;         # seconds since it ended
  }

  struct Rank {
    state @0 :Text;           # as in Status
    residentBytes @1 :UInt64; # memory of its process; 0 before its first schedule
    presence @2 :Presence;
  }
}

struct Request {
  ids @0 :List(Int32);        # of the prompt, at least one
  negativeIds @1 :List(Int32);    # of a negative prompt, for classifier-free guidance
  options @2 :List(Option);   # replace those of the model's generation_config.json
  randomRow @3 :UInt64;       # random numbers depend on the option seed and on this number alone
  modelLogprobs @4 :Int32 = -1;    # the model's log-probabilities, before any option, and that many of the likeliest
                                   # ids; -1: none
  constraint @5 :Text;        # what the answer has to look like (runtime/constraint); empty: anything
  specialText @6 :Bool;       # special tokens are part of the text, except the end token
  priority @7 :Int32;         # a waiting request with a higher one gets a slot first
  client @8 :Text;            # waiting requests of equal priority: clients take turns
  deadlineS @9 :Float64 = inf;    # seconds from now; then the request fails with "deadline_exceeded"
  delivered @10 :List(List(Int32));    # ids of each answer that another engine delivered before it ended: the answers
                              # go on after them, and the sink gets the rest. Text that came without a token comes again
}

# A field of GenerationConfig.
struct Option {
  name @0 :Text;              # Hugging Face's: "max_new_tokens"
  value @1 :Text;             # JSON: "60", "true", "[1, 2]"
}

struct Token {
  answer @0 :UInt32;          # number of its answer
  id @1 :Int32;               # -1: none, only text that was withheld
  text @2 :Text;              # the whole characters that the token completes, maybe none
  logprob @3 :Float32;        # natural logarithm; the model's with modelLogprobs, else that of the processed scores with
                              # the option top_logprobs, else NaN
  top @4 :List(Candidate);    # the likeliest tokens in its place, likeliest first; likewise
}

struct Candidate {
  id @0 :Int32;
  logprob @1 :Float32;
}

struct Answer {
  ids @0 :List(Int32);        # up to and including the end token
  text @1 :Text;              # cut before a stop string; without special tokens unless asked; empty without a tokenizer
  reason @2 :Text;            # "eos", "length", "stop", "cancelled"
  score @3 :Float64;          # of a beam; NaN: there were none
  cachedTokens @4 :UInt32;    # tokens of the prompt that a slot already held
  stopString @5 :Text;        # that ended it; empty: none
  waitedS @6 :Float64;        # seconds from the request's arrival to its first slot
}

struct Scored {
  union {
    tokens @0 :List(Score);
    failure @1 :Failure;
  }
}

struct Score {
  id @0 :Int32;
  logprob @1 :Float32;        # NaN for a text's first token
  top @2 :List(Candidate);    # likeliest first; none for a text's first token
}

struct Failure {
  kind @0 :Text;              # "invalid_argument", "peer_lost", …
  message @1 :Text;
  rank @2 :Int32 = -1;        # where it began; -1: not known
  abandoned @3 :Bool;         # the engine has ended, and another one can go on with the request (Request.delivered)
}
